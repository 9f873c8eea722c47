package main

import (
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/example/fake"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

// hostOf is a host with a cloud of its own.
func hostOf(t *testing.T) *sdktest.Host {
	h := sdktest.New(t)
	h.Configure(&provider{}, "https://cloud.example.com/v1")
	h.HTTP = sdktest.Handler(fake.New("open-sesame"), map[string]string{"api-token": "Bearer open-sesame"})
	return h
}

func service(name string, ports ...int32) *abi.Service {
	s := &abi.Service{Namespace: "default", Name: name, Uid: "12345678-9abc-def0-1234-56789abcdef0" + name}
	for _, p := range ports {
		s.Ports = append(s.Ports, &abi.ServicePort{Protocol: "TCP", Port: p, NodePort: 30000 + p})
	}
	return s
}

func TestTheLifeOfALoadBalancer(t *testing.T) {
	h := hostOf(t)
	joining := &abi.Node{Name: "joining"}
	request := func(name string, ports ...int32) *abi.LoadBalancerRequest {
		return &abi.LoadBalancerRequest{Service: service(name, ports...), Nodes: h.Nodes(joining, &abi.Node{Name: "worker-1", ProviderId: "example://worker-1"})}
	}
	var ensured abi.LoadBalancerEnsureResponse
	var got abi.LoadBalancerGetResponse
	for _, name := range []string{"other", "web"} { // a second page
		if err := h.Call(abi.OpLoadBalancerEnsure, request(name, 80), &ensured); sdk.CodeOf(err) != abi.CodeRetryAfter {
			t.Errorf("the first time: %v, want that it waits", err)
		}
	}
	for range 2 { // repeated changes write nothing
		if err := h.Call(abi.OpLoadBalancerEnsure, request("web", 80, 443), &ensured); err != nil || ensured.Status.Ingress[0].Ip != "198.51.100.3" {
			t.Errorf("ensure: %v, %v", ensured.Status, err)
		}
	}
	if err := h.Call(abi.OpLoadBalancerUpdate, request("web", 80), &abi.Done{}); err != nil {
		t.Errorf("update: %v", err)
	}
	for _, existence := range []sdk.Existence{sdk.Exists, sdk.DoesNotExist} {
		if err := h.Call(abi.OpLoadBalancerGet, request("web"), &got); err != nil || got.Existence != existence {
			t.Errorf("get: %v, %v, want %v", got.Existence, err, existence)
		}
		if err := h.Call(abi.OpLoadBalancerDelete, request("web"), &abi.Done{}); err != nil {
			t.Errorf("delete: %v", err)
		}
	}
	if err := h.Call(abi.OpLoadBalancerUpdate, request("web", 80), &abi.Done{}); sdk.CodeOf(err) != abi.CodeNotFound {
		t.Errorf("update of what is gone: %v", err)
	}
}

// What the cloud cannot do is refused, not ignored.
func TestServicesThatTheCloudCannotServe(t *testing.T) {
	h := hostOf(t)
	for name, change := range map[string]func(*abi.Service){
		"UDP":     func(s *abi.Service) { s.Ports[0].Protocol = "UDP" },
		"no port": func(s *abi.Service) { s.Ports[0].NodePort = 0 },
		"ranges":  func(s *abi.Service) { s.LoadBalancerSourceRanges = []string{"192.0.2.0/24"} },
	} {
		request := &abi.LoadBalancerRequest{Service: service("web", 80), Nodes: h.Nodes()}
		change(request.Service)
		if err := h.Call(abi.OpLoadBalancerEnsure, request, &abi.LoadBalancerEnsureResponse{}); sdk.CodeOf(err) != abi.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
