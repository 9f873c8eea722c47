package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

func TestInstancesV2(t *testing.T) {
	r := newRig(t, "", withServers("https://api.example.com/servers/%s"))
	r.serve(func(*abi.HttpRequest) (int32, string) { return 200, `{"server": {"id": "101", "state": "off"}}` })
	request := &abi.InstanceRequest{Node: node("m1", "fake:///101")}
	var metadata abi.InstanceMetadataResponse
	if err := r.Call(abi.OpInstanceMetadata, request, &metadata); err != nil {
		t.Fatal(err)
	}
	m := metadata.Metadata
	if m.ProviderId != "fake:///101" || m.Zone != "a" || len(m.Addresses) != 2 || m.Addresses[0].Type != abi.AddressType_ADDRESS_TYPE_INTERNAL_IP {
		t.Errorf("metadata %v", m)
	}
	var shutdown abi.InstanceShutdownResponse
	if err := r.Call(abi.OpInstanceShutdown, request, &shutdown); err != nil || shutdown.State != sdk.Shutdown {
		t.Errorf("shutdown %v, %v", shutdown.State, err)
	}
	var exists abi.InstanceExistsResponse
	if err := r.Call(abi.OpInstanceExists, request, &exists); err != nil || exists.Existence != sdk.Exists {
		t.Errorf("exists %v, %v", exists.Existence, err)
	}
}

// A provider is not asked about another cloud's node: AWS', for one, looks only
// at the end of an ID, and would say that the machine does not exist.
func TestForeignNode(t *testing.T) {
	r := newRig(t, "", withServers("https://api.example.com/servers/%s"))
	r.serve(func(*abi.HttpRequest) (int32, string) { return 404, "" })
	for op, response := range map[abi.Op]abi.Message{
		abi.OpInstanceExists: &abi.InstanceExistsResponse{}, abi.OpInstanceShutdown: &abi.InstanceShutdownResponse{}, abi.OpInstanceMetadata: &abi.InstanceMetadataResponse{},
	} {
		if err := r.Call(op, &abi.InstanceRequest{Node: node("m1", "other://101")}, response); sdk.CodeOf(err) != abi.CodeInvalid || !strings.Contains(err.Error(), "upstream.Schemes") {
			t.Errorf("%s: %v", op, err)
		}
	}
	if len(r.requests) > 0 {
		t.Errorf("the cloud was asked %v", r.requests)
	}
	r = newRig(t, "strictExistence: false", withServers("https://api.example.com/servers/%s"), Schemes("other"))
	r.serve(func(*abi.HttpRequest) (int32, string) { return 404, "" })
	var got abi.InstanceExistsResponse
	if err := r.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: node("m1", "other://101")}, &got); err != nil || got.Existence != sdk.DoesNotExist {
		t.Errorf("%v, %v", got.Existence, err)
	}
}

func TestInstancesAndZones(t *testing.T) {
	r := newRig(t, "strictExistence: false", func(*Environment) (cloudprovider.Interface, error) {
		return &cloud{first: first{}, zones: first{}}, nil
	})
	var metadata abi.InstanceMetadataResponse
	if err := r.Call(abi.OpInstanceMetadata, &abi.InstanceRequest{Node: node("m1", "")}, &metadata); err != nil {
		t.Fatal(err)
	}
	if m := metadata.Metadata; m.ProviderId != "fake:///id-of-m1" || m.InstanceType != "big" || m.Addresses[0].Address != "10.0.0.1" || m.Zone != "z1" || m.Region != "r1" {
		t.Errorf("metadata %v", m)
	}
	for name, want := range map[string]sdk.Existence{"m1": sdk.Exists, "m2": sdk.DoesNotExist, "gone": sdk.DoesNotExist} {
		var exists abi.InstanceExistsResponse
		if err := r.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: node(name, "")}, &exists); err != nil || exists.Existence != want {
			t.Errorf("%s: %v, %v, want %v", name, exists.Existence, err, want)
		}
	}
	var shutdown abi.InstanceShutdownResponse
	if err := r.Call(abi.OpInstanceShutdown, &abi.InstanceRequest{Node: node("gone", "")}, &shutdown); sdk.CodeOf(err) != abi.CodeInstanceNotFound {
		t.Errorf("shutdown of a machine that is gone: %v", err)
	}
}

func TestRoutesOnly(t *testing.T) {
	r := newRig(t, "", func(*Environment) (cloudprovider.Interface, error) { return &cloud{routes: &routes{}}, nil })
	route := &abi.Route{TargetNode: "m1", DestinationCidr: "10.244.1.0/24", HasTargetNodeAddresses: true, TargetNodeAddresses: []*abi.NodeAddress{{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: "10.0.0.1"}}}
	if err := r.Call(abi.OpRouteCreate, &abi.RouteCreateRequest{NameHint: "hint", Route: route}, &abi.Done{}); err != nil {
		t.Fatal(err)
	}
	var list abi.RouteListResponse
	if err := r.Call(abi.OpRouteList, &abi.RouteListRequest{}, &list); err != nil || len(list.Routes) != 1 {
		t.Fatalf("routes %v, %v", list.Routes, err)
	}
	if got := list.Routes[0]; got.Name != "hint" || got.TargetNode != "m1" || got.DestinationCidr != "10.244.1.0/24" || got.TargetNodeAddresses[0].Address != "10.0.0.1" {
		t.Errorf("route %v", got)
	}
	if err := r.Call(abi.OpRouteDelete, &abi.RouteDeleteRequest{Route: route}, &abi.Done{}); err != nil {
		t.Error(err)
	}
	for op, request := range map[abi.Op]abi.Message{
		abi.OpInstanceExists:     &abi.InstanceRequest{Node: node("m1", "")},
		abi.OpLoadBalancerDelete: &abi.LoadBalancerRequest{Service: &abi.Service{}},
	} {
		if err := r.Call(op, request, &abi.Done{}); sdk.CodeOf(err) != abi.CodeNotImplemented {
			t.Errorf("%s: %v, want not_implemented", op, err)
		}
	}
}

// Upstream's interfaces use errors where the ABI has codes.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err   error
		code  abi.Code
		after time.Duration
	}{
		{cloudprovider.InstanceNotFound, abi.CodeInstanceNotFound, 0},
		{fmt.Errorf("server 101: %w", cloudprovider.InstanceNotFound), abi.CodeInstanceNotFound, 0},
		{cloudprovider.DiskNotFound, abi.CodeNotFound, 0},
		{cloudprovider.ImplementedElsewhere, abi.CodeImplementedElsewhere, 0},
		{cloudprovider.NotImplemented, abi.CodeNotImplemented, 0},
		{api.NewRetryError("is being made", 30*time.Second), abi.CodeRetryAfter, 30 * time.Second},
		{fmt.Errorf("ensure: %w", api.NewRetryError("is being made", 2*time.Hour)), abi.CodeRetryAfter, time.Hour},
		{api.NewRetryError("at once", 0), abi.CodeRetryAfter, time.Millisecond},
		{context.DeadlineExceeded, abi.CodeDeadline, 0},
		{fmt.Errorf("GET /servers: %w", sdk.Error(abi.CodeDenied, "no grant")), abi.CodeDenied, 0},
		{errors.New("anything else"), abi.CodeInternal, 0},
	} {
		r := newRig(t, "", func(*Environment) (cloudprovider.Interface, error) {
			return &cloud{balancers: &balancers{ensure: func(context.Context, *v1.Service, []*v1.Node) (*v1.LoadBalancerStatus, error) { return nil, c.err }}}, nil
		})
		err := r.Call(abi.OpLoadBalancerEnsure, &abi.LoadBalancerRequest{Service: &abi.Service{}, Nodes: r.Nodes()}, &abi.LoadBalancerEnsureResponse{})
		var got *abi.Error
		if !errors.As(err, &got) || got.Code != c.code || got.RetryAfter != c.after || !strings.Contains(got.Message, c.err.Error()) {
			t.Errorf("%v: %#v, want %v after %v", c.err, err, c.code, c.after)
		}
	}
}

// A provider sees Services and Nodes as they are in Kubernetes.
func TestEnsure(t *testing.T) {
	var service *v1.Service
	var nodes []string
	r := newRig(t, "", func(*Environment) (cloudprovider.Interface, error) {
		return &cloud{balancers: &balancers{ensure: func(_ context.Context, s *v1.Service, all []*v1.Node) (*v1.LoadBalancerStatus, error) {
			service = s
			for _, n := range all {
				nodes = append(nodes, n.Name+" "+n.Spec.ProviderID+" "+n.Status.Addresses[0].Address)
			}
			proxy := v1.LoadBalancerIPModeProxy
			return &v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{{IP: "192.0.2.7", IPMode: &proxy}, {Hostname: "lb.example.com"}}}, nil
		}}}, nil
	})
	address := []*abi.NodeAddress{{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: "10.0.0.1"}}
	request := &abi.LoadBalancerRequest{ClusterName: "kubernetes", Nodes: r.Nodes(
		&abi.Node{Name: "m1", ProviderId: "fake:///1", Addresses: address}, &abi.Node{Name: "m2", ProviderId: "fake:///2", Addresses: address}, &abi.Node{Name: "m3", Addresses: address},
	), Service: &abi.Service{
		Namespace: "default", Name: "web", Uid: "u", Annotations: map[string]string{"a": "b"}, LoadBalancerClass: "example.com/x",
		Ports: []*abi.ServicePort{{Name: "http", Protocol: "TCP", Port: 80, NodePort: 31080, TargetPort: "web"}}, SessionAffinity: "ClientIP", SessionAffinityTimeoutSeconds: 60,
		ClusterIps: []string{"10.96.0.9"}, IpFamilies: []string{"IPv4"}, IpFamilyPolicy: "SingleStack", Deleting: true,
		Status: &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{{Ip: "192.0.2.7", IpMode: "VIP"}}},
	}}
	var got abi.LoadBalancerEnsureResponse
	if err := r.Call(abi.OpLoadBalancerEnsure, request, &got); err != nil {
		t.Fatal(err)
	}
	if in := got.Status.Ingress; len(in) != 2 || in[0].Ip != "192.0.2.7" || in[0].IpMode != "Proxy" || in[1].Hostname != "lb.example.com" {
		t.Errorf("status %v", got.Status)
	}
	if want := []string{"m1 fake:///1 10.0.0.1", "m2 fake:///2 10.0.0.1", "m3  10.0.0.1"}; !slices.Equal(nodes, want) {
		t.Errorf("nodes %v, want %v", nodes, want)
	}
	s := service.Spec
	if service.Annotations["a"] != "b" || *s.LoadBalancerClass != "example.com/x" || s.Ports[0].TargetPort.StrVal != "web" || s.ClusterIP != "10.96.0.9" ||
		*s.SessionAffinityConfig.ClientIP.TimeoutSeconds != 60 || service.DeletionTimestamp == nil || *service.Status.LoadBalancer.Ingress[0].IPMode != v1.LoadBalancerIPModeVIP {
		t.Errorf("the provider saw %+v", service)
	}
}

// lb_name is pure: it does not make a provider whose constructor uses the
// network, in an instance without another op.
func TestLoadBalancerNameIsPure(t *testing.T) {
	made := 0
	create := func(*Environment) (cloudprovider.Interface, error) {
		made++
		return &cloud{balancers: &balancers{}}, nil
	}
	r := newRig(t, "", create)
	var got abi.LoadBalancerNameResponse
	if err := r.Call(abi.OpLoadBalancerName, &abi.LoadBalancerRequest{Service: &abi.Service{Uid: "3f1c2b1e-1111-4222-8333-444455556666"}}, &got); err != nil {
		t.Fatal(err)
	}
	if got.Name != "a3f1c2b1e11114222833344445555666" || made != 0 {
		t.Errorf("name %q, %d providers made", got.Name, made)
	}
	if err := r.Call(abi.OpProbe, &abi.ProbeRequest{}, &abi.ProbeResponse{}); err != nil || made != 1 {
		t.Errorf("probe: %v, %d providers made", err, made)
	}
}

// A provider with names of its own is not served under others.
func TestProbeComparesNames(t *testing.T) {
	create := func(*Environment) (cloudprovider.Interface, error) {
		return &cloud{balancers: &balancers{name: "mine"}}, nil
	}
	err := newRig(t, "", create).Call(abi.OpProbe, &abi.ProbeRequest{}, &abi.ProbeResponse{})
	if err == nil || !strings.Contains(err.Error(), "upstream.LoadBalancerName") {
		t.Errorf("probe: %v", err)
	}
	named := LoadBalancerName(func(string, *v1.Service) string { return "mine" })
	if err := newRig(t, "", create, named).Call(abi.OpProbe, &abi.ProbeRequest{}, &abi.ProbeResponse{}); err != nil {
		t.Error(err)
	}
}

func TestProbeWantsAClusterID(t *testing.T) {
	create := func(*Environment) (cloudprovider.Interface, error) { return &cloud{untagged: true}, nil }
	if err := newRig(t, "", create).Call(abi.OpProbe, &abi.ProbeRequest{}, &abi.ProbeResponse{}); sdk.CodeOf(err) != abi.CodeInvalid {
		t.Errorf("probe without a cluster ID: %v", err)
	}
	if err := newRig(t, "allowUntagged: true", create).Call(abi.OpProbe, &abi.ProbeRequest{}, &abi.ProbeResponse{}); err != nil {
		t.Error(err)
	}
}

// A failed constructor is called again in the next op.
func TestConstructorFails(t *testing.T) {
	fails := true
	r := newRig(t, "", func(e *Environment) (cloudprovider.Interface, error) {
		if fails {
			return nil, errors.New("the cloud is away")
		}
		return &cloud{routes: &routes{}}, nil
	})
	if err := r.Call(abi.OpProbe, &abi.ProbeRequest{}, &abi.ProbeResponse{}); err == nil || !strings.Contains(err.Error(), "the cloud is away") {
		t.Errorf("probe: %v", err)
	}
	fails = false
	if err := r.Call(abi.OpRouteList, &abi.RouteListRequest{}, &abi.RouteListResponse{}); err != nil {
		t.Error(err)
	}
}

func TestBadConfigurations(t *testing.T) {
	for config, want := range map[string]string{
		"requestz: []":                  "requestz",
		"requests: [{host: '['}]":       "requests[0].host",
		"requests: [{credential: x}]":   "requests[0].host",
		"kubernetes: 10.96.0.1":         "kubernetes",
		"loopback: [127.0.0.1:80]":      "loopback[0]",
		"env: {'': x}":                  "env",
		"strictExistence: {on: please}": "strictExistence",
	} {
		p := newProvider("fake", "1", func(*Environment) (cloudprovider.Interface, error) { return nil, nil })
		_, err := p.Configure(nil, sdk.Config{Bytes: []byte(config)})
		if sdk.CodeOf(err) != abi.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want invalid with %q", config, err, want)
		}
	}
}

// The provider's own credentials stay in the guest, if the host adds one.
func TestCredentialsByHost(t *testing.T) {
	for _, c := range []struct{ config, url, credential, authorization string }{
		{"requests: [{host: '*.example.com', credential: token}]", "https://api.example.com/%s", "token", ""},
		{"requests: [{host: '*', pathPrefix: /sdk, credential: soap}, {host: '*', pathPrefix: /rest/, credential: tags}]", "https://api.example.com/rest/%s", "tags", ""},
		{"requests: [{host: '*', pathPrefix: /sdk, credential: soap}]", "https://api.example.com/rest/%s", "", "Bearer the-guests-own; sid=1"},
		{"requests: [{host: '*', credential: soap, session: true}]", "https://api.example.com/%s", "soap", "; sid=1"},
		{"requests: [{host: '*.example.com', credential: token}]", "https://user:pass@api.example.com/%s", "token", ""},
		{"requests: [{host: '*.example.com', credential: token}]", "https://api.example.org/%s", "", "Bearer the-guests-own; sid=1"},
		{"requests: [{host: api.example.com, upgrade: true}, {host: '*', credential: never}]", "http://api.example.com/%s", "", "Bearer the-guests-own; sid=1"},
	} {
		r := newRig(t, c.config, withServers(c.url))
		r.serve(func(*abi.HttpRequest) (int32, string) { return 200, `{"server": {"id": "101"}}` })
		if err := r.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: node("m1", "fake:///101")}, &abi.InstanceExistsResponse{}); err != nil {
			t.Fatal(err)
		}
		request := r.requests[0]
		authorization := ""
		for _, header := range request.Headers {
			if http.CanonicalHeaderKey(header.Name) == "Authorization" {
				authorization = header.Value + authorization
			}
			if http.CanonicalHeaderKey(header.Name) == "Cookie" {
				authorization += "; " + header.Value
			}
		}
		if request.Credential != c.credential || authorization != c.authorization || !strings.HasPrefix(request.Url, "https://api.example.") {
			t.Errorf("%s, %s: credential %q, Authorization %q to %s", c.config, c.url, request.Credential, authorization, request.Url)
		}
	}
}

// A refusal of the host's credential and one of the provider's dummy, sent
// without a rule, have different remedies.
func TestRefusedCredentialsSayWhose(t *testing.T) {
	for config, want := range map[string]string{
		"requests: [{host: api.example.org, credential: token}]": "no credential, since no line of requests in the configuration is for api.example.com",
		"requests: [{host: api.example.com, credential: token}]": "the host added its credential token",
	} {
		r := newRig(t, config, silent, ProbeInstance("fake:///nobody"))
		r.serve(func(*abi.HttpRequest) (int32, string) { return 401, "" })
		probe := r.Call(abi.OpProbe, &abi.ProbeRequest{}, &abi.ProbeResponse{})
		op := r.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: node("m1", "fake:///101")}, &abi.InstanceExistsResponse{})
		for name, err := range map[string]error{"probe": probe, "op": op} {
			if sdk.CodeOf(err) != abi.CodeUnauthenticated || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %s: %v, want %q", config, name, err, want)
			}
		}
	}
}

// An op with refused requests is unauthenticated, whatever the provider makes
// of the answer.
func TestRefusedCredentials(t *testing.T) {
	r := newRig(t, "", silent)
	for status, want := range map[int32]abi.Code{401: abi.CodeUnauthenticated, 403: abi.CodeInternal} {
		r.serve(func(*abi.HttpRequest) (int32, string) { return status, "" })
		err := r.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: node("m1", "fake:///101")}, &abi.InstanceExistsResponse{})
		if sdk.CodeOf(err) != want || !strings.Contains(err.Error(), fmt.Sprint(status)) {
			t.Errorf("%d: %v, want %s", status, err, want)
		}
	}
}
