package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// messages compares ABI messages by their fields.
var messages = cmpopts.IgnoreUnexported(
	abi.Node{}, abi.NodeAddress{}, abi.Service{}, abi.ServicePort{}, abi.LoadBalancerStatus{},
	abi.LoadBalancerIngress{}, abi.PortStatus{}, abi.Route{}, abi.Volume{}, abi.InstanceMetadata{},
)

func testNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n1", UID: "uid-1",
			Labels:      map[string]string{"a": "b"},
			Annotations: map[string]string{"c": "d"},
		},
		Spec: corev1.NodeSpec{ProviderID: "static://n1", PodCIDR: "10.0.0.0/24", PodCIDRs: []string{"10.0.0.0/24", "fd00::/64"}},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeHostName, Address: "n1"},
				{Type: corev1.NodeInternalIP, Address: "192.0.2.1"},
				{Type: "Carrier", Address: "pigeon"},
				{Type: corev1.NodeExternalDNS, Address: "n1.example.org"},
			},
			NodeInfo: corev1.NodeSystemInfo{SystemUUID: "system", MachineID: "machine"},
		},
	}
}

func TestNodeFields(t *testing.T) {
	addresses := []*abi.NodeAddress{
		{Type: abi.AddressType_ADDRESS_TYPE_HOSTNAME, Address: "n1"},
		{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: "192.0.2.1"},
		{Type: abi.AddressType_ADDRESS_TYPE_EXTERNAL_DNS, Address: "n1.example.org"},
	}
	all := &abi.Node{
		Name: "n1", ProviderId: "static://n1", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
		Addresses: addresses, PodCidrs: []string{"10.0.0.0/24", "fd00::/64"}, Uid: "uid-1", SystemUuid: "system", MachineId: "machine",
	}
	tests := map[string]struct {
		fields []uint32
		want   *abi.Node
	}{
		"empty is all":       {nil, all},
		"every number":       {[]uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}, all},
		"name and addresses": {[]uint32{1, 5}, &abi.Node{Name: "n1", Addresses: addresses}},
		"same one twice":     {[]uint32{2, 2}, &abi.Node{ProviderId: "static://n1"}},
		"unknown only":       {[]uint32{77, 0}, &abi.Node{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := &abi.Node{}
			NodeFields(got, testNode(), test.fields)
			if diff := cmp.Diff(test.want, got, messages); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNodeSharesNoMaps(t *testing.T) {
	n := testNode()
	got := Node(n)
	got.Labels["a"] = "changed"
	got.PodCidrs[0] = "changed"
	if diff := cmp.Diff(testNode(), n); diff != "" {
		t.Errorf("the node changed with its copy: %s", diff)
	}
}

func TestNodeWithTheOldPodCIDROnly(t *testing.T) {
	got := Node(&corev1.Node{Spec: corev1.NodeSpec{PodCIDR: "10.0.0.0/24"}})
	if diff := cmp.Diff([]string{"10.0.0.0/24"}, got.PodCidrs); diff != "" {
		t.Error(diff)
	}
}
