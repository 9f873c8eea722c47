package wire_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
)

// asMadeByACharts are the labels that each Service of a chart has, and more.
func asMadeByACharts(n int) map[string]string {
	m := map[string]string{
		"": "", "app.kubernetes.io/name": "ingress-nginx", "app.kubernetes.io/instance": "web", "app.kubernetes.io/version": "1.12.1",
		"app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "ingress-nginx-4.12.1",
	}
	for i := range n {
		m[fmt.Sprintf("key-%d", i)] = fmt.Sprint(i % 7)
	}
	return m
}

func TestEqualMessagesHaveEqualBytes(t *testing.T) {
	node := func() *abi.Node {
		return &abi.Node{Name: "n", Labels: asMadeByACharts(30), Annotations: asMadeByACharts(3)}
	}
	for _, make := range []func() abi.Message{
		func() abi.Message { return &abi.InstanceRequest{Node: node()} },
		func() abi.Message {
			return &abi.LoadBalancerRequest{Service: &abi.Service{Name: "s", Labels: asMadeByACharts(0), Annotations: asMadeByACharts(200)}}
		},
		func() abi.Message {
			return &abi.VolumeLabelsRequest{Volume: &abi.Volume{Name: "v", Attributes: asMadeByACharts(9)}}
		},
		func() abi.Message { return &abi.VolumeLabelsResponse{Labels: asMadeByACharts(1)} },
		func() abi.Message { return &abi.NodesResponse{Nodes: []*abi.Node{node(), {}, node()}} },
		func() abi.Message { return &abi.DescribeRequest{} },
	} {
		want := make()
		first, err := wire.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if again, err := wire.Marshal(make()); err != nil || !bytes.Equal(first, again) {
				t.Fatalf("%T: other bytes, %v", want, err)
			}
		}
		plain, got := bytesOf(t, want), reset(want)
		if err := wire.Unmarshal(first, got); err != nil || len(plain) != len(first) || !bytes.Equal(sorted(plain), sorted(first)) {
			t.Errorf("%T: it is not the same message: %v", want, err)
		}
		if back, err := wire.Marshal(got); err != nil || !bytes.Equal(back, first) {
			t.Errorf("%T: what is read is another message: %v", want, err)
		}
	}
}

func bytesOf(t *testing.T, m abi.Message) []byte {
	t.Helper()
	data := make([]byte, m.SizeVT())
	if _, err := m.MarshalToSizedBufferVT(data); err != nil {
		t.Fatal(err)
	}
	return data
}

func sorted(data []byte) []byte {
	data = slices.Clone(data)
	slices.Sort(data)
	return data
}

// reset returns an empty message of the same type.
func reset(m abi.Message) abi.Message {
	switch m.(type) {
	case *abi.InstanceRequest:
		return &abi.InstanceRequest{}
	case *abi.LoadBalancerRequest:
		return &abi.LoadBalancerRequest{}
	case *abi.NodesResponse:
		return &abi.NodesResponse{}
	case *abi.VolumeLabelsRequest:
		return &abi.VolumeLabelsRequest{}
	case *abi.VolumeLabelsResponse:
		return &abi.VolumeLabelsResponse{}
	}
	return &abi.DescribeRequest{}
}

// FuzzMarshal: whatever message it is, what is written is read as the same.
func FuzzMarshal(f *testing.F) {
	seed, err := wire.Marshal(&abi.InstanceRequest{Node: &abi.Node{Name: "n", Labels: asMadeByACharts(5)}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		m, again := &abi.InstanceRequest{}, &abi.InstanceRequest{}
		if wire.Unmarshal(data, m) != nil {
			return
		}
		first, err := wire.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := wire.Unmarshal(first, again); err != nil || !reflect.DeepEqual(m, again) {
			t.Fatalf("another message: %v", err)
		}
		if second, err := wire.Marshal(again); err != nil || !bytes.Equal(first, second) {
			t.Fatalf("other bytes: %v", err)
		}
	})
}

// What a message costs does not depend on what is known of its type, and the
// entries of a small map cost one copy.
func TestMarshalTakesTheMessageAndItsMaps(t *testing.T) {
	for name, test := range map[string]struct {
		message abi.Message
		most    float64
	}{
		"no map":     {&abi.DescribeRequest{HostVersion: "v"}, 1},
		"empty maps": {&abi.InstanceRequest{Node: &abi.Node{Name: "n"}}, 1},
		"two maps":   {&abi.InstanceRequest{Node: &abi.Node{Name: "n", Labels: asMadeByACharts(9), Annotations: asMadeByACharts(0)}}, 3},
		"many":       {&abi.InstanceRequest{Node: &abi.Node{Name: "n", Labels: asMadeByACharts(300)}}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			got := testing.AllocsPerRun(100, func() {
				if _, err := wire.Marshal(test.message); err != nil {
					t.Fatal(err)
				}
			})
			if got > test.most {
				t.Errorf("%v allocations, want %v at most", got, test.most)
			}
		})
	}
}

func BenchmarkMarshal(b *testing.B) {
	m := &abi.InstanceRequest{Node: &abi.Node{Name: "n", ProviderId: "static://m1", Labels: asMadeByACharts(0)}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.Marshal(m); err != nil {
			b.Fatal(err)
		}
	}
}
