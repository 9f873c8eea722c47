package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

const base = "https://cloud.example.com/a"

// keeper is the cloud of count=URL.
type keeper struct {
	objects  map[string]string // by path
	requests []string
	status   int32 // if set, instead of any other
}

func (k *keeper) do(req *abi.HttpRequest) (*abi.HttpResponse, error) {
	path := strings.TrimPrefix(req.Url, base)
	k.requests = append(k.requests, req.Method+" "+path)
	if k.status != 0 {
		return &abi.HttpResponse{Status: k.status}, nil
	}
	body, found := k.objects[path]
	switch {
	case req.Method == http.MethodPut:
		k.objects[path] = string(req.Body)
	case !found:
		return &abi.HttpResponse{Status: 404}, nil
	case req.Method == http.MethodDelete:
		delete(k.objects, path)
	}
	return &abi.HttpResponse{Status: 200, Body: []byte(body)}, nil
}

// took returns the requests since the last call.
func (k *keeper) took() string {
	all := strings.Join(k.requests, ", ")
	k.requests = nil
	return all
}

func counting(t *testing.T, more string) (*sdktest.Host, *keeper) {
	k := &keeper{objects: map[string]string{}}
	h := sdktest.New(t)
	h.HTTP = k.do
	h.Configure(&provider{}, "count="+base+"/\n"+more)
	return h, k
}

func TestLoadBalancersAreWrittenWhereTheyDiffer(t *testing.T) {
	h, k := counting(t, "")
	service := &abi.Service{Uid: "u1", Namespace: "ns", Name: "web", Ports: []*abi.ServicePort{{Port: 80, Protocol: "TCP"}}}
	request := &abi.LoadBalancerRequest{Service: service, Nodes: h.Nodes(&abi.Node{Name: "n2"}, &abi.Node{Name: "n3"}, &abi.Node{Name: "n1"})}
	ensure := func() {
		t.Helper()
		if err := h.Call(abi.OpLoadBalancerEnsure, request, &abi.LoadBalancerEnsureResponse{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, "GET /lb/u1, PUT /lb/u1"},
		{func() {}, "GET /lb/u1"},
		{func() { service.Ports[0].Port = 8080 }, "GET /lb/u1, PUT /lb/u1"},
		{func() { request.Nodes = h.Nodes(&abi.Node{Name: "n1"}, &abi.Node{Name: "n2"}, &abi.Node{Name: "n3"}) }, "GET /lb/u1"},
		{func() { request.Nodes = h.Nodes(&abi.Node{Name: "n1"}) }, "GET /lb/u1, PUT /lb/u1"},
	} {
		step.change()
		ensure()
		if got := k.took(); got != step.want {
			t.Errorf("requests %s, want %s", got, step.want)
		}
	}
	if got := k.objects["/lb/u1"]; got != "service ns/web\nport 8080/TCP\nnode n1\n" {
		t.Errorf("the cloud keeps %q", got)
	}
	var got abi.LoadBalancerGetResponse
	if err := h.Call(abi.OpLoadBalancerGet, request, &got); err != nil || got.Existence != sdk.Exists {
		t.Errorf("get: %v, %v", got.Existence, err)
	}
	for range 2 { // the second time it is gone already
		if err := h.Call(abi.OpLoadBalancerDelete, request, &abi.Done{}); err != nil || len(k.objects) != 0 {
			t.Errorf("delete: %v, %v", k.objects, err)
		}
	}
	if err := h.Call(abi.OpLoadBalancerGet, request, &got); err != nil || got.Existence != sdk.DoesNotExist {
		t.Errorf("get after delete: %v, %v", got.Existence, err)
	}
	if err := h.Call(abi.OpLoadBalancerUpdate, request, &abi.Done{}); sdk.CodeOf(err) != abi.CodeNotFound || len(k.objects) != 0 {
		t.Errorf("update after delete: %v, %v", k.objects, err)
	}
}

func TestServersAndErrorsOfTheCloud(t *testing.T) {
	h, k := counting(t, "zone=z1\nscheme=other\n")
	k.objects["/server/n1"] = ""
	var exists abi.InstanceExistsResponse
	var metadata abi.InstanceMetadataResponse
	for _, test := range []struct {
		node *abi.Node
		want sdk.Existence
		code abi.Code
	}{
		{&abi.Node{Name: "n1"}, sdk.Exists, abi.CodeOK},
		{&abi.Node{Name: "x", ProviderId: "other://n1"}, sdk.Exists, abi.CodeOK},
		{&abi.Node{Name: "n2"}, sdk.DoesNotExist, abi.CodeOK},
		{&abi.Node{Name: "n1", ProviderId: "faulty://n1"}, 0, abi.CodeInvalid},
	} {
		err := h.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: test.node}, &exists)
		if sdk.CodeOf(err) != test.code || err == nil && exists.Existence != test.want {
			t.Errorf("%v: %v, %v", test.node, exists.Existence, err)
		}
	}
	err := h.Call(abi.OpInstanceMetadata, &abi.InstanceRequest{Node: &abi.Node{Name: "n1"}}, &metadata)
	if err != nil || metadata.Metadata.Zone != "z1" || metadata.Metadata.ProviderId != "other://n1" {
		t.Errorf("metadata: %v, %v", metadata.Metadata, err)
	}
	for status, want := range map[int32]abi.Code{401: abi.CodeUnauthenticated, 500: abi.CodeUnavailable} {
		k.status = status
		if err := h.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: &abi.Node{Name: "n1"}}, &exists); sdk.CodeOf(err) != want {
			t.Errorf("the cloud answered %d: %v, want %v", status, err, want)
		}
	}
}

func TestRoutes(t *testing.T) {
	h, k := counting(t, "routes=on\n")
	k.objects["/route"] = "n1 n1 10.1.0.0/24\nn2 n2 10.2.0.0/24\n"
	var list abi.RouteListResponse
	if err := h.Call(abi.OpRouteList, &abi.RouteListRequest{}, &list); err != nil || len(list.Routes) != 2 || list.Routes[1].DestinationCidr != "10.2.0.0/24" {
		t.Errorf("%v, %v", list.Routes, err)
	}
	route := &abi.Route{Name: "n3", TargetNode: "n3", DestinationCidr: "10.3.0.0/24"}
	if err := h.Call(abi.OpRouteCreate, &abi.RouteCreateRequest{Route: route}, &abi.Done{}); err != nil || k.objects["/route/n3"] != "n3 10.3.0.0/24" {
		t.Errorf("%v, %v", k.objects, err)
	}
	if err := h.Call(abi.OpRouteDelete, &abi.RouteDeleteRequest{Route: route}, &abi.Done{}); err != nil || k.objects["/route/n3"] != "" {
		t.Errorf("%v, %v", k.objects, err)
	}
}

func TestEveryThirdOpTraps(t *testing.T) {
	h := sdktest.New(t)
	h.Configure(&provider{}, "trap=3\n")
	exists := func() (trapped bool) {
		defer func() { trapped = recover() != nil }()
		return h.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: &abi.Node{Name: "n1"}}, &abi.InstanceExistsResponse{}) != nil
	}
	for i := 1; i <= 6; i++ {
		if err := h.Call(abi.OpProbe, &abi.ProbeRequest{}, &abi.ProbeResponse{}); err != nil {
			t.Fatal(err) // it does not count
		}
		if got := exists(); got != (i%3 == 0) {
			t.Errorf("op %d: trapped %v", i, got)
		}
	}
}

func TestGroupsOfOpsAndProbe(t *testing.T) {
	for config, want := range map[string]string{
		"":                                "route_list",
		"lb=off\n":                        "lb_get route_list",
		"routes=on\ncount=" + base + "\n": "",
	} {
		var got []string
		for _, op := range sdktest.New(t).Configure(&provider{}, config).DisabledOps {
			got = append(got, abi.Op(op).String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q turns off %v, want %q", config, got, want)
		}
	}
	for config, want := range map[string]abi.Code{"probe=ok": abi.CodeOK, "probe=fail": abi.CodeUnavailable} {
		h := sdktest.New(t)
		h.Configure(&provider{}, config)
		if err := h.Call(abi.OpProbe, &abi.ProbeRequest{}, &abi.ProbeResponse{}); sdk.CodeOf(err) != want {
			t.Errorf("%s: %v", config, err)
		}
	}
	h, k := counting(t, "probe=cloud\n")
	k.status = 401
	if err := h.Call(abi.OpProbe, &abi.ProbeRequest{}, &abi.ProbeResponse{}); sdk.CodeOf(err) != abi.CodeUnauthenticated {
		t.Errorf("probe=cloud: %v", err)
	}
}

func TestSlow(t *testing.T) {
	const long = 50 * time.Millisecond
	k := &keeper{objects: map[string]string{"/server/n1": ""}}
	for word, op := range map[string]func(h *sdktest.Host) error{
		"configure": func(h *sdktest.Host) error {
			h.Configure(&provider{}, "count="+base+"\nconfigure=slow:50ms")
			return nil
		},
		"metadata": func(h *sdktest.Host) error {
			return h.Call(abi.OpInstanceMetadata, &abi.InstanceRequest{Node: &abi.Node{Name: "n1"}}, &abi.InstanceMetadataResponse{})
		},
		"probe": func(h *sdktest.Host) error { return h.Call(abi.OpProbe, &abi.ProbeRequest{}, &abi.ProbeResponse{}) },
	} {
		h := sdktest.New(t)
		h.HTTP = k.do
		if word != "configure" {
			h.Configure(&provider{}, "count="+base+"\n"+word+"=slow:50ms")
		}
		begin := time.Now()
		if err := op(h); err != nil || time.Since(begin) < long {
			t.Errorf("%s: %v after %v", word, err, time.Since(begin))
		}
	}
}

// Misbehaviour of read-only ops: additional writes, and bad answers.
func TestAnswers(t *testing.T) {
	for how, requests := range map[string]string{
		"metadata=trap\nsneak=on": "POST /lb/sneaked, PUT /lb/sneaked, PATCH /lb/sneaked, DELETE /lb/sneaked",
		"metadata=empty":          "",
		"metadata=busy:50ms":      "GET /server/n1",
	} {
		h, k := counting(t, how)
		k.objects["/server/n1"] = ""
		var got abi.InstanceMetadataResponse
		var err error
		begin := time.Now()
		trapped := func() (trapped bool) {
			defer func() { trapped = recover() != nil }()
			err = h.Call(abi.OpInstanceMetadata, &abi.InstanceRequest{Node: &abi.Node{Name: "n1"}}, &got)
			return false
		}()
		busy := time.Since(begin) >= 50*time.Millisecond
		empty := got.Metadata == nil || got.Metadata.ProviderId == ""
		if err != nil || trapped != strings.Contains(how, "trap") || busy != strings.Contains(how, "busy") || empty == strings.Contains(how, "busy") || k.took() != requests {
			t.Errorf("%q: %v, %v, trapped %v, busy %v", how, got.Metadata, err, trapped, busy)
		}
	}
}

func TestABuildHasLinesOfItsOwn(t *testing.T) {
	if len(inborn) != len(inbornMark)+96 || withInborn("zone=z1") != "zone=z1\n" {
		t.Errorf("%q", inborn)
	}
	defer func(before string) { inborn = before }(inborn)
	inborn = inbornMark + "zone=z2\nlb=off  "
	if got := withInborn("zone=z1"); got != "zone=z1\nzone=z2\nlb=off" {
		t.Errorf("%q", got)
	}
}

func TestWrongConfiguration(t *testing.T) {
	for _, config := range []string{
		"colour=red", "trap=0", "trap=x", "probe=maybe", "lb=no", "routes=on", "probe=cloud", "exists=", "credential=mine", "scheme=", "=x",
		"probe=slow", "probe=slow:", "probe=slow:-1s", "metadata=slow:soon", "zone=slow:1s", "lb=slow:1s", "metadata=wrong", "metadata=busy:", "sneak=off", "sneak=on",
	} {
		h := sdktest.New(t)
		h.Serve(&provider{})
		err := h.Call(abi.OpConfigure, &abi.ConfigureRequest{Config: []byte(config)}, &abi.ConfigureResponse{})
		if sdk.CodeOf(err) != abi.CodeInvalid {
			t.Errorf("%q: %v, want invalid", config, err)
		}
	}
}
