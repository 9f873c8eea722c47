package shadow

import (
	"strings"
	"testing"
	"unicode"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
	"github.com/wasm-ccm/wasm-ccm/host/test/requests"
)

func checkTexts(t testing.TB, d Difference) {
	t.Helper()
	for name, s := range map[string]string{"object": d.Object, "field": d.Field, "old": d.Old, "new": d.New} {
		if len(s) > 505 { // text.Quote with everything escaped
			t.Errorf("%s has %d bytes", name, len(s))
		}
		if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s %q is not printable", name, s)
		}
	}
}

func TestCompare(t *testing.T) {
	instance := func(m *abi.InstanceMetadata) abi.Message { return &abi.InstanceMetadataResponse{Metadata: m} }
	status := func(ingress ...*abi.LoadBalancerIngress) abi.Message {
		return &abi.LoadBalancerGetResponse{Existence: abi.Existence_EXISTENCE_EXISTS, Status: &abi.LoadBalancerStatus{Ingress: ingress}}
	}
	address := func(as ...string) (list []*abi.NodeAddress) {
		for _, a := range as {
			list = append(list, &abi.NodeAddress{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: a})
		}
		return list
	}
	routes := func(rs ...*abi.Route) abi.Message { return &abi.RouteListResponse{Routes: rs, Done: true} }
	instances := func(token string, ids ...string) abi.Message {
		r := &abi.ListInstancesResponse{NextPageToken: token, Done: true}
		for _, id := range ids {
			r.Instances = append(r.Instances, &abi.Instance{Metadata: &abi.InstanceMetadata{ProviderId: id}})
		}
		return r
	}
	tests := map[string]struct {
		older, newer abi.Message
		want         string
	}{
		"same":             {instance(&abi.InstanceMetadata{Zone: "a"}), instance(&abi.InstanceMetadata{Zone: "a"}), ""},
		"nil, empty":       {instance(&abi.InstanceMetadata{AdditionalLabels: map[string]string{}}), instance(&abi.InstanceMetadata{}), ""},
		"text":             {instance(&abi.InstanceMetadata{Region: "a "}), instance(&abi.InstanceMetadata{}), `metadata.region: "a " -> ""`},
		"enum":             {&abi.InstanceExistsResponse{Existence: 1}, &abi.InstanceExistsResponse{Existence: 2}, "existence: EXISTENCE_EXISTS -> EXISTENCE_DOES_NOT_EXIST"},
		"unknown enum":     {&abi.InstanceShutdownResponse{State: 1}, &abi.InstanceShutdownResponse{State: 9}, "state: POWER_STATE_ON -> 9"},
		"bool":             {routes(), &abi.RouteListResponse{}, "done: true -> false"},
		"in a list":        {instance(&abi.InstanceMetadata{Addresses: address("1", "2")}), instance(&abi.InstanceMetadata{Addresses: address("1", "3")}), `metadata.addresses[1].address: "2" -> "3"`},
		"order":            {instance(&abi.InstanceMetadata{Addresses: address("1", "2")}), instance(&abi.InstanceMetadata{Addresses: address("2", "1")}), `metadata.addresses[0].address: "1" -> "2"; metadata.addresses[1].address: "2" -> "1"`},
		"length":           {instance(&abi.InstanceMetadata{Addresses: address("1")}), instance(&abi.InstanceMetadata{Addresses: address("1", "2")}), "metadata.addresses: 1 entry -> 2 entries"},
		"map":              {&abi.VolumeLabelsResponse{Labels: map[string]string{"a": "1", "b": "2"}}, &abi.VolumeLabelsResponse{Labels: map[string]string{"b": "3", "c/d": "4"}}, `labels["a"]: "1" -> absent; labels["b"]: "2" -> "3"; labels["c/d"]: absent -> "4"`},
		"message":          {status(), &abi.LoadBalancerGetResponse{Existence: 1}, "status: present -> absent"},
		"nested":           {status(&abi.LoadBalancerIngress{Ports: []*abi.PortStatus{{Port: 80}}}), status(&abi.LoadBalancerIngress{Ports: []*abi.PortStatus{{Port: 81}}}), "status.ingress[0].ports[0].port: 80 -> 81"},
		"routes, reorder":  {routes(&abi.Route{Name: "a"}, &abi.Route{Name: "b"}), routes(&abi.Route{Name: "b"}, &abi.Route{Name: "a"}), ""},
		"routes, field":    {routes(&abi.Route{Name: "a"}, &abi.Route{Name: "b"}), routes(&abi.Route{Name: "b", Blackhole: true}, &abi.Route{Name: "a"}), `routes["b"].blackhole: false -> true`},
		"routes, one less": {routes(&abi.Route{Name: "a"}, &abi.Route{DestinationCidr: "10.0.0.0/24", TargetNode: "n"}), routes(&abi.Route{Name: "a"}), `routes["10.0.0.0/24 n"]: present -> absent`},
		"routes, twice":    {routes(&abi.Route{Name: "a"}, &abi.Route{Name: "a"}), routes(&abi.Route{Name: "a"}), "routes: 2 entries -> 1 entry"},
		"instances":        {instances("p", "x://1", "x://2"), instances("q", "x://3", "x://1"), `instances["x://2"]: present -> absent; instances["x://3"]: absent -> present`},
		"last page":        {instances("p"), instances(""), "next_page_token: present -> absent"},
	}
	for name, test := range tests {
		var got []string
		for _, d := range compare(test.older, test.newer) {
			got = append(got, d.Field+": "+d.Old+" -> "+d.New)
		}
		if strings.Join(got, "; ") != test.want {
			t.Errorf("%s:\n got %s\nwant %s", name, strings.Join(got, "; "), test.want)
		}
	}
}

func TestCompareIsBoundedPerAnswer(t *testing.T) {
	older, newer := &abi.VolumeLabelsResponse{Labels: map[string]string{}}, &abi.VolumeLabelsResponse{Done: true}
	for i := range 100 {
		older.Labels[strings.Repeat("k", i)] = "v"
	}
	if n := len(compare(older, newer)); n != maxPerAnswer {
		t.Errorf("%d differences of one answer", n)
	}
}

func TestObject(t *testing.T) {
	tests := map[string]struct {
		op      abi.Op
		request abi.Message
		want    string
	}{
		"node":      {abi.OpInstanceShutdown, requests.Instance("n\n1"), "n; 1"},
		"no node":   {abi.OpInstanceExists, &abi.InstanceRequest{}, ""},
		"service":   {abi.OpLoadBalancerName, requests.LoadBalancer("ns", "web"), "ns/web"},
		"volume":    {abi.OpVolumeLabels, requests.VolumeLabels("pv"), "pv"},
		"routes":    {abi.OpRouteList, &abi.RouteListRequest{ClusterName: "c"}, ""},
		"long name": {abi.OpVolumeLabels, requests.VolumeLabels(strings.Repeat("é", 200)), strings.Repeat("é", 62) + "..."},
	}
	for name, test := range tests {
		if got := (Question{Op: test.op, Request: encoded(test.request)}).object(); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// FuzzCompare decodes two answers and compares them: it never panics, an
// answer equals itself, and the texts are bounded.
func FuzzCompare(f *testing.F) {
	f.Add(uint32(abi.OpInstanceMetadata), metadata("a"), metadata("b"))
	f.Add(uint32(abi.OpRouteList), []byte("\x0a\x03\x0a\x01a\x10\x01"), []byte("\x0a\x03\x0a\x01b\x0a\x00"))
	f.Add(uint32(abi.OpListInstances), []byte("\x0a\x05\x0a\x03abc\x12\x01p"), []byte("\x0a\x00\x18\x01"))
	f.Add(uint32(abi.OpListInstances), []byte("\x0a\x03\x12\x01n\x18\x01"), []byte("\x0a\x02\x0a\x00\x18\x01")) // no metadata, and empty
	f.Add(uint32(abi.OpVolumeLabels), []byte("\x0a\x06\x0a\x01a\x12\x01b"), []byte("\x0a\x03\x0a\x01c"))
	f.Add(uint32(abi.OpLoadBalancerGet), []byte("\x08\x01\x12\x04\x0a\x02\x22\x00"), []byte("\x08\x02"))
	f.Fuzz(func(t *testing.T, number uint32, a, b []byte) {
		op := abi.Ops()[number%uint32(len(abi.Ops()))]
		_, older := op.New()
		_, newer := op.New()
		if !op.Reads() || wire.Unmarshal(a, older) != nil {
			return
		}
		if d := compare(older, older); len(d) != 0 {
			t.Errorf("an answer differs from itself: %v", d)
		}
		if wire.Unmarshal(b, newer) != nil {
			return
		}
		there, back := compare(older, newer), compare(newer, older)
		if len(there) != len(back) {
			t.Errorf("%d differences, the other way round %d", len(there), len(back))
		}
		for _, d := range there {
			checkTexts(t, d)
		}
	})
}
