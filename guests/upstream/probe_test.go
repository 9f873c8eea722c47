package upstream

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// silent is a provider whose constructor makes no request.
func silent(e *Environment) (cloudprovider.Interface, error) {
	s := &servers{&http.Client{Transport: e.Transport}, "https://api.example.com/servers/%s"}
	return &cloud{v2: &thorough{s}, balancers: &balancers{get: func(ctx context.Context, service *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
		return nil, false, get(ctx, s.client, "https://lb.example.com/"+service.Name)
	}}}, nil
}

// thorough respects the status.
type thorough struct{ *servers }

func (s *thorough) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	err := get(ctx, s.client, fmt.Sprintf(s.url, lastOf(node.Spec.ProviderID)))
	return err == nil, err
}

func (s *thorough) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	return s.InstanceExists(ctx, node)
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil || response.StatusCode == http.StatusOK {
		return err
	}
	return fmt.Errorf("the API answered %d", response.StatusCode)
}

// A wrong credential is found before the provider serves, and an unreachable
// cloud is distinguished from one that refuses.
func TestProbeAsksTheCloud(t *testing.T) {
	for _, c := range []struct {
		name             string
		instances, lists int32
		err              error
		code             abi.Code
		says             string
	}{
		{"there is none", 404, 404, nil, abi.CodeOK, ""},
		{"an empty list of load balancers", 404, 200, nil, abi.CodeOK, ""},
		{"an empty object", 299, 200, nil, abi.CodeInternal, "no answer says anything"},
		{"refused", 401, 200, nil, abi.CodeUnauthenticated, "servers/nobody was answered 401"},
		{"forbidden", 403, 200, nil, abi.CodeUnauthenticated, "servers/nobody was answered 403"},
		{"load balancers refused", 404, 403, nil, abi.CodeUnauthenticated, "lb.example.com/probe was answered 403"},
		{"out of order", 500, 200, nil, abi.CodeInternal, "the API answered 500"},
		{"away", 0, 0, sdk.Error(abi.CodeUnavailable, "connection refused"), abi.CodeUnavailable, "connection refused"},
		{"not granted", 0, 0, sdk.Error(abi.CodeDenied, "no grant"), abi.CodeDenied, "no grant"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, "", silent, ProbeInstance("fake:///nobody"))
			r.HTTP = func(request *abi.HttpRequest) (*abi.HttpResponse, error) {
				if c.err != nil {
					return nil, c.err
				}
				status := c.instances
				if strings.HasPrefix(request.Url, "https://lb.") {
					status = c.lists
				}
				if status == 299 {
					return &abi.HttpResponse{Status: 200, Body: []byte("{}")}, nil
				}
				return &abi.HttpResponse{Status: status, Body: []byte(`["nobody and probe are not here"]`)}, nil
			}
			err := r.Call(abi.OpProbe, &abi.ProbeRequest{}, &abi.ProbeResponse{})
			if sdk.CodeOf(err) != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v (%s), want %s: %q", err, sdk.CodeOf(err), c.code, c.says)
			}
		})
	}
}

func TestProbeAsksOnlyIfToldTo(t *testing.T) {
	r := newRig(t, "", silent)
	r.serve(func(*abi.HttpRequest) (int32, string) { return 401, "" })
	if err := r.Call(abi.OpProbe, &abi.ProbeRequest{}, &abi.ProbeResponse{}); err != nil || len(r.requests) > 0 {
		t.Errorf("%v, %d requests", err, len(r.requests))
	}
}
