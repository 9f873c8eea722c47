package main

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

func configured(t *testing.T, config string) *sdktest.Host {
	t.Helper()
	h := sdktest.New(t)
	h.Configure(&provider{}, config)
	return h
}

func TestConfigureAndProbe(t *testing.T) {
	h := sdktest.New(t)
	resp := h.Configure(&provider{}, example)
	if want := (&abi.ConfigureResponse{Accepted: true, HasClusterId: true}); !reflect.DeepEqual(want, resp) {
		t.Errorf("configure: %v, want %v", resp, want)
	}
	var probe abi.ProbeResponse
	if err := h.Call(abi.OpProbe, &abi.ProbeRequest{}, &probe); err != nil || probe.Summary != "2 machines in 2 zones, 2 pools" {
		t.Errorf("probe: %q, %v", probe.Summary, err)
	}
	err := h.Call(abi.OpConfigure, &abi.ConfigureRequest{Config: []byte("colour: blue")}, &abi.ConfigureResponse{})
	if sdk.CodeOf(err) != abi.CodeInvalid || !strings.Contains(err.Error(), "line 1: colour is unknown") {
		t.Errorf("a wrong inventory: %v", err)
	}
}

func TestInstances(t *testing.T) {
	tests := map[string]struct {
		name, providerID string
		exists           sdk.Existence
		state            sdk.PowerState
		id               string   // of the metadata
		codes            abi.Code // of exists
		metadataCode     abi.Code // of shutdown and metadata
	}{
		"by name":          {"worker-1", "", sdk.Exists, sdk.On, "static://worker-1", 0, 0},
		"by ID":            {"renamed", "static://worker-1", sdk.Exists, sdk.On, "static://worker-1", 0, 0},
		"by own ID":        {"worker-2", "metal://serial-4711", sdk.Exists, sdk.Shutdown, "metal://serial-4711", 0, 0},
		"not listed":       {"worker-3", "", sdk.DoesNotExist, 0, "", 0, abi.CodeInstanceNotFound},
		"ID not listed":    {"worker-1", "static://worker-3", sdk.DoesNotExist, 0, "", 0, abi.CodeInstanceNotFound},
		"another scheme":   {"worker-1", "aws:///a/i-1", 0, 0, "", abi.CodeInvalid, abi.CodeInvalid},
		"no scheme":        {"worker-1", "worker-1", 0, 0, "", abi.CodeInvalid, abi.CodeInvalid},
		"neither":          {"", "", 0, 0, "", abi.CodeInvalid, abi.CodeInvalid},
		"scheme of a part": {"worker-1", "metals://serial-4711", 0, 0, "", abi.CodeInvalid, abi.CodeInvalid},
	}
	h := configured(t, example)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			req := &abi.InstanceRequest{Node: &abi.Node{Name: test.name, ProviderId: test.providerID, Labels: map[string]string{"a": "b"}}}
			var exists abi.InstanceExistsResponse
			var shutdown abi.InstanceShutdownResponse
			var metadata abi.InstanceMetadataResponse
			if err := h.Call(abi.OpInstanceExists, req, &exists); sdk.CodeOf(err) != test.codes || exists.Existence != test.exists {
				t.Errorf("exists: %v, %v", exists.Existence, err)
			}
			if err := h.Call(abi.OpInstanceShutdown, req, &shutdown); sdk.CodeOf(err) != test.metadataCode || shutdown.State != test.state {
				t.Errorf("shutdown: %v, %v", shutdown.State, err)
			}
			err := h.Call(abi.OpInstanceMetadata, req, &metadata)
			id := ""
			if metadata.Metadata != nil {
				id = metadata.Metadata.ProviderId
			}
			if sdk.CodeOf(err) != test.metadataCode || id != test.id {
				t.Errorf("metadata: %v, %v", metadata.Metadata, err)
			}
		})
	}
}

func TestListInstances(t *testing.T) {
	h := configured(t, example)
	var names []string
	token := ""
	for range 3 {
		var resp abi.ListInstancesResponse
		if err := h.Call(abi.OpListInstances, &abi.ListInstancesRequest{PageToken: token, PageSize: 1}, &resp); err != nil || !resp.Done {
			t.Fatal(err)
		}
		for _, instance := range resp.Instances {
			names = append(names, instance.NodeName+" "+instance.State.String()+" "+instance.Metadata.ProviderId)
		}
		if token = resp.NextPageToken; token == "" {
			break
		}
	}
	want := []string{"worker-1 POWER_STATE_ON static://worker-1", "worker-2 POWER_STATE_SHUTDOWN metal://serial-4711"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	for _, token := range []string{"x", "-1", "3"} {
		if err := h.Call(abi.OpListInstances, &abi.ListInstancesRequest{PageToken: token}, &abi.ListInstancesResponse{}); sdk.CodeOf(err) != abi.CodeInvalid {
			t.Errorf("token %q: %v, want invalid", token, err)
		}
	}
}

// service returns a Service whose UID is its name. Options are IPv4, IPv6 (in
// order), PreferDualStack, RequireDualStack, ip=, addresses=, pool=, status=.
func service(name string, options ...string) *abi.Service {
	s := &abi.Service{Namespace: "default", Name: name, Uid: "uid-" + name, Annotations: map[string]string{}}
	for _, option := range options {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "IPv4", "IPv6":
			s.IpFamilies = append(s.IpFamilies, key)
		case "ip":
			s.LoadBalancerIp = value
		case "addresses":
			s.Annotations[annotationAddresses] = value
		case "pool":
			s.Annotations[annotationPool] = value
		case "status":
			s.Status = &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{{Ip: value}}}
		default:
			s.IpFamilyPolicy = key
		}
	}
	return s
}

// ensure returns the addresses, separated by spaces.
func ensure(h *sdktest.Host, s *abi.Service) (string, error) {
	var resp abi.LoadBalancerEnsureResponse
	err := h.Call(abi.OpLoadBalancerEnsure, &abi.LoadBalancerRequest{Service: s}, &resp)
	return text(resp.Status), err
}

func text(status *abi.LoadBalancerStatus) string {
	if status == nil {
		return ""
	}
	var ips []string
	for _, ingress := range status.Ingress {
		if ingress.IpMode != "VIP" {
			return "ipMode " + ingress.IpMode
		}
		ips = append(ips, ingress.Ip)
	}
	return strings.Join(ips, " ")
}

const pools = m + `pools:
- name: small
  cidrs: [198.51.100.0/31]
- name: six
  cidrs: ["2001:db8:1::/126"]
- name: reserved
  ranges: [203.0.113.10-203.0.113.12, "2001:db8:2::a-2001:db8:2::b"]
  autoAssign: false
routes: true
volumes:
- {driver: csi.example.com, zoneFrom: volumeID, separator: /}
`

// Each test is a story: steps on one store, each an ensure and its result.
func TestEnsure(t *testing.T) {
	type step struct {
		service *abi.Service
		want    string // the addresses
		err     string // or a part of the error
	}
	tests := map[string][]step{
		"in order":         {{service("a"), "198.51.100.0", ""}, {service("b"), "198.51.100.1", ""}, {service("a"), "198.51.100.0", ""}},
		"exhausted":        {{service("a"), "198.51.100.0", ""}, {service("b"), "198.51.100.1", ""}, {service("c"), "", "default/c: no pool with autoAssign has a free IPv4 address; the pools are: small, six, reserved"}},
		"IPv6":             {{service("a", "IPv6"), "2001:db8:1::", ""}},
		"dual":             {{service("a", "IPv4", "IPv6", "RequireDualStack"), "198.51.100.0 2001:db8:1::", ""}},
		"dual, other way":  {{service("a", "IPv6", "IPv4", "PreferDualStack"), "2001:db8:1:: 198.51.100.0", ""}},
		"one becomes dual": {{service("a", "IPv4"), "198.51.100.0", ""}, {service("a", "IPv4", "IPv6", "RequireDualStack"), "198.51.100.0 2001:db8:1::", ""}, {service("a", "IPv4"), "198.51.100.0", ""}},
		"prefer takes one": {
			{service("a", "pool=small"), "198.51.100.0", ""}, {service("b", "pool=small"), "198.51.100.1", ""},
			{service("c", "IPv6", "IPv4", "PreferDualStack"), "2001:db8:1::", ""}, {service("c", "IPv6", "IPv4", "PreferDualStack"), "2001:db8:1::", ""},
			{service("d", "IPv6", "IPv4", "RequireDualStack"), "", "free IPv4 address"},
		},
		"loadBalancerIP":      {{service("a", "ip=198.51.100.1"), "198.51.100.1", ""}, {service("b"), "198.51.100.0", ""}},
		"annotation":          {{service("a", "IPv4", "IPv6", "RequireDualStack", "addresses=2001:db8:2::a, 203.0.113.11"), "203.0.113.11 2001:db8:2::a", ""}},
		"half an annotation":  {{service("a", "IPv4", "IPv6", "RequireDualStack", "addresses=203.0.113.11"), "203.0.113.11 2001:db8:1::", ""}},
		"both agree":          {{service("a", "ip=203.0.113.11", "addresses=203.0.113.11"), "203.0.113.11", ""}},
		"both disagree":       {{service("a", "ip=203.0.113.11", "addresses=203.0.113.12"), "", "leave one of them"}},
		"taken":               {{service("a", "ip=203.0.113.11"), "203.0.113.11", ""}, {service("b", "ip=203.0.113.11"), "", "default/b asks for 203.0.113.11, which belongs to default/a"}},
		"taken later":         {{service("a"), "198.51.100.0", ""}, {service("b"), "198.51.100.1", ""}, {service("b", "ip=198.51.100.0"), "", "which belongs to default/a"}, {service("b"), "198.51.100.1", ""}},
		"other request":       {{service("a", "ip=203.0.113.11"), "203.0.113.11", ""}, {service("a", "ip=203.0.113.12"), "203.0.113.12", ""}, {service("b", "ip=203.0.113.11"), "203.0.113.11", ""}},
		"request withdrawn":   {{service("a", "ip=203.0.113.11"), "203.0.113.11", ""}, {service("a"), "203.0.113.11", ""}},
		"not in a pool":       {{service("a", "ip=192.0.2.1"), "", "192.0.2.1, which is in no pool"}},
		"no address":          {{service("a", "ip=pizza"), "", `"pizza", which is not an IP address`}},
		"wrong family":        {{service("a", "IPv6", "ip=203.0.113.11"), "", "not of the IP families"}},
		"two of a family":     {{service("a", "addresses=203.0.113.11,203.0.113.12"), "", "one address per IP family"}},
		"unknown family":      {{service("a", "IPv4"), "198.51.100.0", ""}, {&abi.Service{Uid: "x", IpFamilies: []string{"IPX"}}, "", `"IPX" is unknown`}},
		"pool":                {{service("a", "pool=reserved"), "203.0.113.10", ""}},
		"pool changed":        {{service("a"), "198.51.100.0", ""}, {service("a", "pool=reserved"), "203.0.113.10", ""}, {service("b"), "198.51.100.0", ""}},
		"pool unknown":        {{service("a", "pool=big"), "", `there is no pool "big"`}},
		"pool and request":    {{service("a", "pool=small", "ip=203.0.113.11"), "", "in pool reserved, and for pool small"}},
		"pool exhausted":      {{service("a", "pool=six"), "", "pool six has no free IPv4 address"}},
		"status adopted":      {{service("a", "status=198.51.100.1"), "198.51.100.1", ""}},
		"status taken":        {{service("b"), "198.51.100.0", ""}, {service("a", "status=198.51.100.0"), "198.51.100.1", ""}},
		"status reserved":     {{service("a", "status=203.0.113.11"), "198.51.100.0", ""}},
		"status not ours":     {{service("a", "status=192.0.2.1"), "198.51.100.0", ""}},
		"made again":          {{service("a"), "198.51.100.0", ""}, {&abi.Service{Namespace: "default", Name: "a", Uid: "other"}, "198.51.100.1", ""}},
		"UID is a prefix":     {{service("ab"), "198.51.100.0", ""}, {service("a"), "198.51.100.1", ""}},
		"no UID":              {{&abi.Service{Name: "a"}, "", "has no UID"}},
		"family goes":         {{service("a", "IPv4", "IPv6", "RequireDualStack"), "198.51.100.0 2001:db8:1::", ""}, {service("a", "IPv6"), "2001:db8:1::", ""}, {service("b"), "198.51.100.0", ""}},
		"same request, twice": {{service("a", "addresses=203.0.113.11 203.0.113.11"), "", "one address per IP family"}},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			h := configured(t, pools)
			for i, step := range steps {
				got, err := ensure(h, step.service)
				if (err == nil) != (step.err == "") || got != step.want || err != nil && !strings.Contains(err.Error(), step.err) {
					t.Fatalf("step %d: %q, %v; want %q, %q", i, got, err, step.want, step.err)
				}
				if err != nil && sdk.CodeOf(err) != abi.CodeInvalid {
					t.Errorf("step %d: %s, want invalid", i, sdk.CodeOf(err))
				}
				writes := h.Store.Writes()
				again, _ := ensure(h, step.service)
				if again != got || h.Store.Writes() != writes {
					t.Errorf("step %d: asked again: %q with %d writes, want %q with none", i, again, h.Store.Writes()-writes, got)
				}
			}
		})
	}
}

// A Service whose address has left the inventory gets another one.
func TestPoolLeavesTheInventory(t *testing.T) {
	h := configured(t, pools)
	if got, err := ensure(h, service("a")); got != "198.51.100.0" {
		t.Fatal(got, err)
	}
	h.Configure(&provider{}, strings.ReplaceAll(pools, "198.51.100.0/31", "198.51.100.8/31"))
	if got, err := ensure(h, service("a")); got != "198.51.100.8" {
		t.Errorf("%s, %v", got, err)
	}
	if logs := strings.Join(h.Logs(), "\n"); !strings.Contains(logs, "have changed") || !strings.Contains(logs, "198.51.100.0") {
		t.Errorf("the log does not say it: %s", logs)
	}
}

func TestGetNameUpdateDelete(t *testing.T) {
	h := configured(t, pools)
	req := &abi.LoadBalancerRequest{Service: service("a")}
	get := func() string {
		t.Helper()
		var resp abi.LoadBalancerGetResponse
		if err := h.Call(abi.OpLoadBalancerGet, req, &resp); err != nil {
			t.Fatal(err)
		}
		return resp.Existence.String() + " " + text(resp.Status)
	}
	if got := get(); got != "EXISTENCE_DOES_NOT_EXIST " {
		t.Errorf("before: %s", got)
	}
	if _, err := ensure(h, req.Service); err != nil {
		t.Fatal(err)
	}
	if got := get(); got != "EXISTENCE_EXISTS 198.51.100.0" {
		t.Errorf("after ensure: %s", got)
	}
	if err := h.Call(abi.OpLoadBalancerUpdate, req, &abi.Done{}); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := h.Call(abi.OpLoadBalancerDelete, req, &abi.Done{}); err != nil {
			t.Error(err)
		}
	}
	if got := get(); got != "EXISTENCE_DOES_NOT_EXIST " || h.Store.Writes() != 2 {
		t.Errorf("after deletion: %s, %d writes", got, h.Store.Writes())
	}
	if got, err := ensure(h, service("b")); got != "198.51.100.0" {
		t.Errorf("the address is not free again: %s, %v", got, err)
	}
	var name abi.LoadBalancerNameResponse
	req.Service.Uid = "8e0ac1f3-6f2f-4a41-a3cf-e6cf7d7a3a11"
	if err := h.Call(abi.OpLoadBalancerName, req, &name); err != nil || name.Name != "a8e0ac1f36f2f4a41a3cfe6cf7d7a3a1" {
		t.Errorf("name: %q, %v", name.Name, err)
	}
}

// A later version's entries are not understood, so nothing is given out.
func TestUnknownEntry(t *testing.T) {
	for _, value := range []string{"v2 default/a 198.51.100.0", "v1 default/a", "v1 default/a pizza", ""} {
		h := configured(t, pools)
		h.Store.Put("lb.uid-other", value)
		if _, err := ensure(h, service("a")); sdk.CodeOf(err) != abi.CodeInternal || !strings.Contains(err.Error(), "lb.uid-other") {
			t.Errorf("%q: %v, want an error that names the entry", value, err)
		}
	}
}

// No address is given twice, however many managers allocate concurrently.
func TestAllocateConcurrently(t *testing.T) {
	const managers, each = 4, 16
	config := m + "pools: [{name: p, cidrs: [198.51.100.0/26]}]\n"
	store := sdktest.NewStore()
	got := make([][]string, managers)
	var wg sync.WaitGroup
	for i := range managers {
		h := configured(t, config)
		h.Store = store
		wg.Go(func() {
			for j := range each {
				ip, err := "", error(&abi.Error{Code: abi.CodeConflict})
				for sdk.CodeOf(err) == abi.CodeConflict { // the controller retries
					ip, err = ensure(h, service(fmt.Sprintf("s-%d-%d", i, j)))
				}
				if err != nil {
					t.Error(err)
				}
				got[i] = append(got[i], ip)
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, ips := range got {
		for _, ip := range ips {
			if seen[ip] {
				t.Errorf("%s was given twice", ip)
			}
			seen[ip] = true
		}
	}
	if len(seen) != managers*each || len(store.Entries()) != managers*each {
		t.Errorf("%d addresses, %d entries, want %d", len(seen), len(store.Entries()), managers*each)
	}
}

// Another manager takes the address between our read and our write.
func TestConflictDecidesAgain(t *testing.T) {
	h := configured(t, pools)
	first := true
	h.Store.BeforeWrite = func() {
		if first {
			first = false
			h.Store.Put("lb.uid-other", "v1 default/other 198.51.100.0")
		}
	}
	if got, err := ensure(h, service("a")); got != "198.51.100.1" || err != nil {
		t.Errorf("%s, %v, want the address that is left", got, err)
	}
}
