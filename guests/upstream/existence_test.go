package upstream

import (
	"context"
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// A careless provider takes each of these answers for "no such server". The
// adapter passes that on only if the cloud said so.
func TestStrictExistence(t *testing.T) {
	gone := &abi.InstanceRequest{Node: node("m1", "fake:///101")}
	for _, c := range []struct {
		name, url string
		status    int32
		body      string
		gone      bool
	}{
		{"an empty object", "servers/%s", 200, `{}`, false},
		{"nothing", "servers/%s", 200, ``, false},
		{"a page of HTML", "servers/%s", 200, `<html><body>Login</body></html>`, false},
		{"a truncated answer", "servers/%s", 200, `{"server": {"id": "10`, false},
		{"an answer about another", "servers/%s", 200, `{"server": {"id": "102"}}`, false},
		{"an error of the cloud's", "servers/%s", 500, `{}`, false},
		{"a refused credential", "servers/%s", 401, `{"error": "terminated"}`, false},
		{"404", "servers/%s", 404, `{"itemNotFound": {"code": 404, "message": "Instance 101 could not be found."}}`, true},
		{"410", "servers/%s", 410, `{"message": "server 101 was deleted"}`, true},
		{"404 of something else", "?id=%s1", 404, `{}`, false},
		{"the cloud's word for it", "servers/%s", 400, `{"error": {"code": "InvalidServerID.NotFound"}}`, true},
		{"the word within another", "servers/%s", 400, `{"error": "InvalidServerID.NotFoundOrNot"}`, false},
		{"a state", "servers/%s", 200, `{"server": {"id": "101", "state": "terminated"}}`, true},
		{"a state in XML", "servers/%s", 200, `<R><item><id>101</id><state>terminated</state></item></R>`, true},
		{"an empty list", "servers", 200, `{"servers": []}`, false},
		{"a list with a known one", "servers", 200, `{"servers": [{"id": "55"}, {"id": "7"}]}`, true},
		{"the same in XML", "servers", 200, `<R><item><id>7</id></item></R>`, true},
		{"a truncated list", "servers", 200, `{"servers": [{"id": "7"}, {"id": "5`, false},
		{"a list of another region", "servers", 200, `{"servers": [{"id": "900"}, {"id": "901"}]}`, false},
		{"a list with this one, elsewhere", "servers", 200, `{"servers": [{"id": "7"}], "errors": [{"id": "101"}]}`, false},
		{"an empty answer to its name", "find/%s", 200, soapOf(`<FindResponse xmlns="urn:x"> </FindResponse>`), true},
		{"an empty answer to another name", "find/%s1", 200, soapOf(`<FindResponse/>`), false},
		{"an empty answer of another kind", "find/%s", 200, soapOf(`<ListResponse/>`), false},
		{"an answer with something in it", "find/%s", 200, soapOf(`<FindResponse><x/></FindResponse>`), false},
		{"an answer with text in it", "find/%s", 200, soapOf(`<FindResponse>102</FindResponse>`), false},
		{"two answers", "find/%s", 200, soapOf(`<FindResponse/><FindResponse>102</FindResponse>`), false},
		{"a truncated empty answer", "find/%s", 200, `<Envelope><Body><FindResponse/>`, false},
		{"a fault", "find/%s", 500, soapOf(`<Fault/><FindResponse/>`), false},
		{"a fault that is none by its status", "find/%s", 200, soapOf(`<Fault/><FindResponse/>`), false},
		{"a list that was refused", "servers", 403, `{"servers": [{"id": "7"}]}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := "https://api.example.com/" + c.url
			if !strings.Contains(c.url, "%s") {
				url += "#%s" // not sent
			}
			r := newRig(t, "", withServers(url), Gone("InvalidServerID.NotFound", "terminated"), Empty("FindResponse"))
			r.serve(func(*abi.HttpRequest) (int32, string) {
				return 200, `{"server": {"id": "7"}, "servers": [{"id": "7"}]}`
			})
			if err := r.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: node("m7", "fake:///7")}, &abi.InstanceExistsResponse{}); err != nil {
				t.Fatal(err)
			}
			r.serve(func(*abi.HttpRequest) (int32, string) { return c.status, c.body })
			var got abi.InstanceExistsResponse
			err := r.Call(abi.OpInstanceExists, gone, &got)
			if c.gone && (err != nil || got.Existence != sdk.DoesNotExist) {
				t.Errorf("%v, %v, want that it does not exist", got.Existence, err)
			}
			if !c.gone && (err == nil || !strings.Contains(err.Error(), "strictExistence")) {
				t.Errorf("%v, %v, want an error that names strictExistence", got.Existence, err)
			}
		})
	}
}

func soapOf(body string) string {
	return `<?xml version="1.0"?><s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body>` + body + `</s:Body></s:Envelope>`
}

// A guest that never saw an instance believes no list.
func TestStrictExistenceOfANewInstance(t *testing.T) {
	r := newRig(t, "", withServers("https://api.example.com/servers#%s"))
	r.serve(func(*abi.HttpRequest) (int32, string) { return 200, `{"servers": [{"id": "7"}]}` })
	if err := r.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: node("m1", "fake:///101")}, &abi.InstanceExistsResponse{}); err == nil {
		t.Error("a list of unknown instances was taken for one of this cluster")
	}
}

func TestStrictExistenceCanBeTurnedOff(t *testing.T) {
	r := newRig(t, "strictExistence: false", withServers("https://api.example.com/servers/%s"))
	r.serve(func(*abi.HttpRequest) (int32, string) { return 200, `{}` })
	var got abi.InstanceExistsResponse
	if err := r.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: node("m1", "fake:///101")}, &got); err != nil || got.Existence != sdk.DoesNotExist {
		t.Errorf("%v, %v", got.Existence, err)
	}
	configured := r.Configure(r.p, "strictExistence: false")
	if len(configured.Warnings) != 1 || !strings.Contains(configured.Warnings[0], "strictExistence") {
		t.Errorf("warnings %q", configured.Warnings)
	}
}

// Instances seen by the constructor or an earlier op prove nothing about this
// one.
func TestExistenceCountsAnswersOfTheOpOnly(t *testing.T) {
	r := newRig(t, "", func(e *Environment) (cloudprovider.Interface, error) {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://api.example.com/servers/101", nil)
		if err != nil {
			return nil, err
		}
		response, err := e.Transport.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		return &cloud{v2: &servers{&http.Client{Transport: e.Transport}, "https://api.example.com/again/%s"}}, nil
	})
	status := int32(404)
	r.serve(func(*abi.HttpRequest) (int32, string) {
		defer func() { status = 200 }()
		return status, `{}`
	})
	if err := r.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: node("m1", "fake:///101")}, &abi.InstanceExistsResponse{}); err == nil {
		t.Error("a 404 of the constructor made a Node be deleted")
	}
}

// An empty list of load balancers is an answer: clouds look them up by name.
func TestStrictExistenceOfLoadBalancers(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int32
		body   string
		gone   bool
	}{
		{"an empty object", 200, `{}`, false},
		{"nothing", 200, ``, false},
		{"a truncated list", 200, `{"balancers": [`, false},
		{"an error", 503, `{"balancers": []}`, false},
		{"an empty list", 200, `{"balancers": []}`, true},
		{"a part of a list", 206, `{"balancers": []}`, false},
		{"a first page", 200, `{"balancers": [], "next": "abc"}`, false},
		{"404 of a gateway", 404, ``, false},
		{"404 of a gateway in JSON", 404, `{"message": "no Route matched with those values", "path": "/balancers"}`, false},
		{"404", 404, `{"error": {"code": 404, "message": "The resource 'projects/p/balancers' was not found"}}`, true},
		{"a word", 400, `<E><Code>LoadBalancerNotFound</Code></E>`, true},
		{"no request", 0, ``, true},
	} {
		r := newRig(t, "", func(e *Environment) (cloudprovider.Interface, error) {
			return &cloud{balancers: &balancers{get: func(ctx context.Context, _ *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
				if c.status == 0 {
					return nil, false, nil
				}
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example.com/balancers", nil)
				if err != nil {
					return nil, false, err
				}
				response, err := e.Transport.RoundTrip(request)
				if err == nil {
					_ = response.Body.Close()
				}
				return nil, false, err
			}}}, nil
		}, Gone("LoadBalancerNotFound"))
		r.serve(func(*abi.HttpRequest) (int32, string) { return c.status, c.body })
		var got abi.LoadBalancerGetResponse
		err := r.Call(abi.OpLoadBalancerGet, &abi.LoadBalancerRequest{Service: &abi.Service{Namespace: "default", Name: "web"}}, &got)
		if c.gone != (err == nil && got.Existence == sdk.DoesNotExist) || !c.gone && err == nil {
			t.Errorf("%s: %v, %v; want gone: %t", c.name, got.Existence, err, c.gone)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{`{}`, `[1, "a"]`, `<a><b>c</b></a>`, `<a/>`, ``, `{"a": [`, `<a><b>`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		if values, list, err := read(document); err != nil && (values != nil || list) {
			t.Errorf("an answer with an error: %q, %t, %v", values, list, err)
		}
	})
}

// For a provider that does not wrap InstanceNotFound, the cloud's word about
// this instance counts, and about no other.
func TestPowerOfWhatIsGone(t *testing.T) {
	for body, want := range map[string]abi.Code{
		`{"code": "NoSuchServer", "id": "101"}`: abi.CodeInstanceNotFound,
		`{"code": "NoSuchServer", "id": "102"}`: abi.CodeInternal,
		`{"code": "Broken", "id": "101"}`:       abi.CodeInternal,
	} {
		r := newRig(t, "", func(e *Environment) (cloudprovider.Interface, error) {
			return &cloud{v2: &thorough{&servers{&http.Client{Transport: e.Transport}, "https://api.example.com/find%.0s"}}}, nil
		}, Gone("NoSuchServer"))
		r.serve(func(*abi.HttpRequest) (int32, string) { return 400, body })
		err := r.Call(abi.OpInstanceShutdown, &abi.InstanceRequest{Node: node("m1", "fake:///101")}, &abi.InstanceShutdownResponse{})
		if sdk.CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

// A provider that finds nothing to delete reports success. Its answers must
// have said so, or the load balancer stays and nobody knows of it.
func TestDeletionNeedsAnAnswer(t *testing.T) {
	for _, c := range []struct {
		config, body string
		code         abi.Code
	}{
		{"", `{"balancers": []}`, abi.CodeOK},
		{"", `{"id": "lb-1"}`, abi.CodeOK},
		{"", "", abi.CodeInternal},
		{"", "{}", abi.CodeInternal},
		{"", "<html><body>Maintenance</body></html>", abi.CodeInternal},
		{"strictExistence: false", "{}", abi.CodeOK},
	} {
		r := newRig(t, c.config, func(e *Environment) (cloudprovider.Interface, error) {
			return &cloud{balancers: &balancers{ensure: func(ctx context.Context, service *v1.Service, _ []*v1.Node) (*v1.LoadBalancerStatus, error) {
				return nil, get(ctx, &http.Client{Transport: e.Transport}, "https://lb.example.com/"+service.Name)
			}}}, nil
		})
		r.serve(func(*abi.HttpRequest) (int32, string) { return 200, c.body })
		err := r.Call(abi.OpLoadBalancerDelete, &abi.LoadBalancerRequest{Service: &abi.Service{Namespace: "default", Name: "web"}}, &abi.Done{})
		if sdk.CodeOf(err) != c.code {
			t.Errorf("%q %s: %v, want %s", c.config, c.body, err, c.code)
		}
	}
}
