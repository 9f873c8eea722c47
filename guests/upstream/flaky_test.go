package upstream

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// pages is InstancesV2 of a cloud with paged lists. It takes an unreadable page
// for an empty last one.
type pages struct {
	servers
	client *http.Client
}

func (p *pages) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	for url := "https://api.example.com/servers"; url != ""; {
		body, err := fetch(ctx, p.client, url)
		if err != nil {
			return false, err
		}
		var page struct {
			Servers []server
			Next    string
		}
		_ = json.Unmarshal(body, &page) // as careless as providers are
		for _, s := range page.Servers {
			if s.ID == lastOf(node.Spec.ProviderID) {
				return true, nil
			}
		}
		url = page.Next
	}
	return false, nil
}

// fetch is a GET whose status is ignored.
func fetch(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// A list is complete if each of its pages says something.
func TestAListIsCompleteWithItsLastPage(t *testing.T) {
	for last, gone := range map[string]bool{
		`{"servers": [{"id": "8"}]}`:        true,
		`{"servers": []}`:                   true,
		`{"servers": [{"id": "8"}, {"id": `: false,
		`<html><body>Maintenance</body>`:    false,
		`{}`:                                false,
		`null`:                              false,
		``:                                  false,
	} {
		r := newRig(t, "", func(e *Environment) (cloudprovider.Interface, error) {
			return &cloud{v2: &pages{client: &http.Client{Transport: e.Transport}}}, nil
		})
		r.serve(func(request *abi.HttpRequest) (int32, string) {
			if request.Url == "https://api.example.com/servers" {
				return 200, `{"servers": [{"id": "7"}], "next": "https://api.example.com/servers?page=2"}`
			}
			return 200, last
		})
		if err := r.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: node("m7", "fake:///7")}, &abi.InstanceExistsResponse{}); err != nil {
			t.Fatal(err)
		}
		var got abi.InstanceExistsResponse
		err := r.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: node("m1", "fake:///101")}, &got)
		if gone != (err == nil && got.Existence == sdk.DoesNotExist) {
			t.Errorf("the second page is %q: %v, %v; want gone: %t", last, got.Existence, err, gone)
		}
	}
}

// A gateway without this path answers with a page. The cloud never saw the
// request.
func TestAPageWithStatus404SaysNothing(t *testing.T) {
	for _, page := range []string{
		"<html>\r\n<head><title>404 Not Found</title></head>\r\n<body><hr><center>nginx</center>\r\n</body>\r\n</html>\r\n",
		"\n<!DOCTYPE html><html lang=en><meta charset=utf-8><title>Error 404 (Not Found)!!1</title>",
		"<?xml version=\"1.0\"?><!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 Strict//EN\" \"x\"><html><body/></html>",
	} {
		r := newRig(t, "", withServers("https://api.example.com/servers/%s"))
		r.serve(func(*abi.HttpRequest) (int32, string) { return 404, page })
		var got abi.InstanceExistsResponse
		if err := r.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: node("m1", "fake:///101")}, &got); err == nil {
			t.Errorf("%q: %v, want an error", page, got.Existence)
		}
	}
}

// flakyRoutes takes an unreadable list for no routes.
type flakyRoutes struct {
	routes
	client *http.Client
}

func (f *flakyRoutes) ListRoutes(ctx context.Context, _ string) (list []*cloudprovider.Route, err error) {
	body, err := fetch(ctx, f.client, "https://api.example.com/routes")
	if err != nil {
		return nil, err
	}
	var answer struct{ Routes []*cloudprovider.Route }
	_ = json.Unmarshal(body, &answer) // as careless as providers are
	return answer.Routes, nil
}

// Without routes the Nodes of a cluster have no network: the cloud must have
// said so.
func TestNoRoutesNeedAnAnswer(t *testing.T) {
	for _, c := range []struct {
		config, body string
		ok           bool
	}{
		{"", `{"routes": []}`, true},
		{"", `{"routes": [{"name": "r"}]}`, true},
		{"", `{}`, false},
		{"", ``, false},
		{"", `<html><body>Maintenance</body></html>`, false},
		{"", `{"routes": [`, false},
		{"strictExistence: false", `{}`, true},
	} {
		r := newRig(t, c.config, func(e *Environment) (cloudprovider.Interface, error) {
			return &cloud{routes: &flakyRoutes{client: &http.Client{Transport: e.Transport}}}, nil
		})
		r.serve(func(*abi.HttpRequest) (int32, string) { return 200, c.body })
		if err := r.Call(abi.OpRouteList, &abi.RouteListRequest{}, &abi.RouteListResponse{}); c.ok != (err == nil) {
			t.Errorf("%q %s: %v", c.config, c.body, err)
		}
	}
}

// Answers that a careless provider ignored do not prove that nothing is left of
// a load balancer.
func TestDeletionNeedsMoreThanAFailure(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int32
		body   string
		ok     bool
	}{
		{"a list", 200, `{"balancers": []}`, true},
		{"404", 404, ``, true},
		{"a refusal that is the provider's to know", 409, `{"error": "in use"}`, true},
		{"no content", 204, ``, true},
		{"nothing", 200, ``, false},
		{"throttled", 429, `{"error": "slow down"}`, false},
		{"throttled without a word", 429, ``, false},
		{"overloaded", 503, `{"error": "try again"}`, false},
		{"no answer", 0, ``, false},
		{"no grant", -1, ``, true},
	} {
		r := newRig(t, "", func(e *Environment) (cloudprovider.Interface, error) {
			return &cloud{balancers: &balancers{ensure: func(ctx context.Context, _ *v1.Service, _ []*v1.Node) (*v1.LoadBalancerStatus, error) {
				_, _ = fetch(ctx, &http.Client{Transport: e.Transport}, "https://api.example.com/balancers") // as careless as providers are
				return nil, nil
			}}}, nil
		})
		r.HTTP = func(*abi.HttpRequest) (*abi.HttpResponse, error) {
			switch c.status {
			case -1:
				return nil, &abi.Error{Code: abi.CodeDenied, Message: "no grant for it"}
			case 0:
				return nil, &abi.Error{Code: abi.CodeUnavailable, Message: "connection refused"}
			}
			return &abi.HttpResponse{Status: c.status, Body: []byte(c.body)}, nil
		}
		err := r.Call(abi.OpLoadBalancerDelete, &abi.LoadBalancerRequest{Service: &abi.Service{Namespace: "default", Name: "web"}}, &abi.Done{})
		if c.ok != (err == nil) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
