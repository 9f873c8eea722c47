package hostfunc_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/convert"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/hostfunc"
)

func manyNodes(n int) []*corev1.Node {
	out := make([]*corev1.Node, n)
	for i := range out {
		out[i] = &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("node-%05d", i), UID: "uid",
				Labels:      map[string]string{"kubernetes.io/hostname": fmt.Sprint(i), "topology.kubernetes.io/zone": "z"},
				Annotations: map[string]string{"note": strings.Repeat("x", 200)},
			},
			Spec: corev1.NodeSpec{ProviderID: fmt.Sprint("static://", i), PodCIDRs: []string{"10.0.0.0/24", "fd00::/64"}},
			Status: corev1.NodeStatus{
				Addresses: []corev1.NodeAddress{
					{Type: corev1.NodeHostName, Address: fmt.Sprintf("node-%05d", i)},
					{Type: corev1.NodeInternalIP, Address: "192.0.2.1"},
				},
				NodeInfo: corev1.NodeSystemInfo{SystemUUID: "s", MachineID: "m"},
			},
		}
	}
	return out
}

func withNodes(ctx context.Context, nodes []*corev1.Node) context.Context {
	return opcontext.NewContext(ctx, opcontext.Op{Nodes: nodes, Object: &corev1.ObjectReference{Kind: "Service"}})
}

var ignoreUnexported = cmpopts.IgnoreUnexported(abi.Node{}, abi.NodeAddress{}, abi.NodesResponse{})

func TestNodesPages(t *testing.T) {
	nodes := manyNodes(1200)
	h := hostfunc.New(granted(t))
	for name, test := range map[string]struct {
		request     *abi.NodesRequest
		first, last int // of the nodes that come, last not included
	}{
		"host's choice":    {&abi.NodesRequest{SnapshotId: 1}, 0, 500},
		"second page":      {&abi.NodesRequest{SnapshotId: 1, Offset: 500}, 500, 1000},
		"last page":        {&abi.NodesRequest{SnapshotId: 1, Offset: 1000}, 1000, 1200},
		"behind the end":   {&abi.NodesRequest{SnapshotId: 1, Offset: 4_000_000_000}, 0, 0},
		"small":            {&abi.NodesRequest{SnapshotId: 1, Offset: 3, Limit: 2}, 3, 5},
		"more than a page": {&abi.NodesRequest{SnapshotId: 1, Limit: 4_000_000_000}, 0, abi.MaxNodesPage},
		"two fields":       {&abi.NodesRequest{SnapshotId: 1, Limit: 10, Fields: []uint32{5, 1, 5}}, 0, 10},
		"unknown fields":   {&abi.NodesRequest{SnapshotId: 1, Limit: 10, Fields: []uint32{77}}, 0, 10},
	} {
		t.Run(name, func(t *testing.T) {
			want := &abi.NodesResponse{Total: 1200}
			for _, n := range nodes[test.first:test.last] {
				converted := &abi.Node{}
				convert.NodeFields(converted, n, test.request.Fields)
				want.Nodes = append(want.Nodes, converted)
			}
			got := &abi.NodesResponse{}
			if err := call(withNodes(t.Context(), nodes), t, h, abi.CapabilityNodes, test.request, got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, ignoreUnexported); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNodesThatAreLargeEndThePage(t *testing.T) {
	nodes := manyNodes(10)
	for _, n := range nodes {
		n.Annotations["note"] = strings.Repeat("x", 1_500_000)
	}
	h := hostfunc.New(granted(t))
	seen := 0
	for pages := 0; seen < len(nodes); pages++ {
		var got abi.NodesResponse
		if err := call(withNodes(t.Context(), nodes), t, h, abi.CapabilityNodes, &abi.NodesRequest{SnapshotId: 1, Offset: uint32(seen)}, &got); err != nil {
			t.Fatal(err)
		}
		if n := len(got.Nodes); n == 0 || got.SizeVT() > 4<<20 {
			t.Fatalf("page %d has %d nodes and %d bytes", pages, n, got.SizeVT())
		}
		seen += len(got.Nodes)
	}
}

func TestNodesOfAnotherOp(t *testing.T) {
	h := hostfunc.New(granted(t))
	for _, id := range []uint32{0, 2} {
		want(t, call(withNodes(t.Context(), manyNodes(1)), t, h, abi.CapabilityNodes, &abi.NodesRequest{SnapshotId: id}, nil), abi.CodeNotFound, "snapshot")
	}
	want(t, call(t.Context(), t, h, abi.CapabilityNodes, &abi.NodesRequest{SnapshotId: 1}, nil), abi.CodeNotFound, "snapshot")
	want(t, call(t.Context(), t, h, abi.CapabilityNodes, &abi.NodesRequest{SnapshotId: 1, Fields: make([]uint32, 65)}, nil), abi.CodeInvalid, "fields")
	var got abi.NodesResponse
	if err := call(withNodes(t.Context(), nil), t, h, abi.CapabilityNodes, &abi.NodesRequest{SnapshotId: 1}, &got); err != nil || got.Total != 0 || len(got.Nodes) != 0 {
		t.Errorf("an op without any node: %v, %v", &got, err)
	}
}

// TestNodesAreThoseOfConvert holds the encoder and convert together, for each
// field, and for nodes that lack everything or have what is unusual.
func TestNodesAreThoseOfConvert(t *testing.T) {
	unusual := manyNodes(3)
	unusual[0] = &corev1.Node{}
	unusual[1].Spec.PodCIDR, unusual[1].Spec.PodCIDRs = "10.0.0.0/24", nil
	unusual[1].Labels = map[string]string{"": "", "k": "", "l": strings.Repeat("v", 20_000)}
	unusual[1].Status.Addresses = nil
	for _, kind := range []corev1.NodeAddressType{"", "Hostname", "InternalIP", "ExternalIP", "InternalDNS", "ExternalDNS", "Carrier"} {
		unusual[1].Status.Addresses = append(unusual[1].Status.Addresses, corev1.NodeAddress{Type: kind}, corev1.NodeAddress{Type: kind, Address: string(kind)})
	}
	unusual[2].Name = strings.Repeat("n", 128)
	h := hostfunc.New(granted(t))
	for field := uint32(0); field < 20; field++ {
		fields := []uint32{field}
		if field == 0 {
			fields = nil // all
		}
		want := &abi.NodesResponse{Total: 3}
		for _, n := range unusual {
			converted := &abi.Node{}
			convert.NodeFields(converted, n, fields)
			want.Nodes = append(want.Nodes, converted)
		}
		got := &abi.NodesResponse{}
		if err := call(withNodes(t.Context(), unusual), t, h, abi.CapabilityNodes, &abi.NodesRequest{SnapshotId: 1, Fields: fields}, got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, ignoreUnexported, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("field %d: %s", field, diff)
		}
	}
}

// BenchmarkNodes pages through 5,000 nodes, names and addresses only.
func BenchmarkNodes(b *testing.B) {
	ctx := withNodes(b.Context(), manyNodes(5000))
	h := hostfunc.New(hostfunc.Options{Provider: "bench", Nodes: true})
	var requests [][]byte
	for offset := uint32(0); offset < 5000; offset += 500 {
		requests = append(requests, encode(b, &abi.NodesRequest{SnapshotId: 1, Offset: offset, Fields: []uint32{1, 5}}))
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, request := range requests {
			if code, _ := h.HostCall(ctx, abi.CapabilityNodes, request); code != abi.CodeOK {
				b.Fatal(code)
			}
		}
	}
}
