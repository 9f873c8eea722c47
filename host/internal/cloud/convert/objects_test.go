package convert

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
	"github.com/wasm-ccm/wasm-ccm/testdata/objects"
)

// roundTrip decodes what a message is encoded to.
func roundTrip(t *testing.T, m, into abi.Message) {
	t.Helper()
	data := make([]byte, m.SizeVT())
	if _, err := m.MarshalToSizedBufferVT(data); err != nil {
		t.Fatal(err)
	}
	if err := into.UnmarshalVT(data); err != nil {
		t.Fatal(err)
	}
}

// What is converted twice is equal, and is what the guest decodes. Encodings
// differ: maps are in no order.
func TestServicesAsPeopleHaveThem(t *testing.T) {
	for name, s := range objects.Services(t) {
		t.Run(name, func(t *testing.T) {
			before := s.DeepCopy()
			got, decoded := Service(s), &abi.Service{}
			roundTrip(t, got, decoded)
			if !reflect.DeepEqual(got, Service(s.DeepCopy())) || !reflect.DeepEqual(decoded, got) {
				t.Error("two conversions of one Service differ")
			}
			if diff := cmp.Diff(before, s); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(s.Labels, decoded.Labels); diff != "" || len(decoded.Annotations) != len(s.Annotations) || len(decoded.Ports) != len(s.Spec.Ports) || decoded.Deleting != (s.DeletionTimestamp != nil) || decoded.LoadBalancerClass != value(s.Spec.LoadBalancerClass) {
				t.Errorf("%+v %s", decoded, diff)
			}
			for i, p := range s.Spec.Ports {
				if got := decoded.Ports[i]; got.Port != p.Port || got.Name != p.Name || got.TargetPort != p.TargetPort.String() || got.NodePort != p.NodePort {
					t.Errorf("port %d: %+v, want %+v", i, got, p)
				}
			}
			if _, err := CloudLoadBalancerStatus(decoded.Status, addresses.Default()); err != nil {
				t.Errorf("the status of earlier times is refused when a provider repeats it: %v", err)
			}
		})
	}
}

func TestNodesAsPeopleHaveThem(t *testing.T) {
	for name, n := range objects.Nodes(t) {
		t.Run(name, func(t *testing.T) {
			before := n.DeepCopy()
			got, decoded := Node(n), &abi.Node{}
			roundTrip(t, got, decoded)
			if !reflect.DeepEqual(got, Node(n.DeepCopy())) || !reflect.DeepEqual(decoded, got) {
				t.Error("two conversions of one Node differ")
			}
			if diff := cmp.Diff(before, n); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(n.Labels, decoded.Labels); diff != "" || len(decoded.Addresses) != len(n.Status.Addresses) || len(decoded.PodCidrs) != len(n.Spec.PodCIDRs) || decoded.ProviderId != n.Spec.ProviderID {
				t.Errorf("%+v %s", decoded, diff)
			}
			// A provider that answers what the Node has says nothing that is refused.
			id := decoded.ProviderId
			if id == "" {
				id = "static://" + n.Name
			}
			if _, err := InstanceMetadata(&abi.InstanceMetadata{ProviderId: id, Addresses: decoded.Addresses}, addresses.Default()); err != nil {
				t.Error(err)
			}
		})
	}
}
