package convert

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Field numbers of abi.Node.
const (
	nodeName        = 1
	nodeProviderID  = 2
	nodeLabels      = 3
	nodeAnnotations = 4
	nodeAddresses   = 5
	nodePodCIDRs    = 6
	nodeUID         = 7
	nodeSystemUUID  = 8
	nodeMachineID   = 9
)

// Node returns the message of a node with every field filled.
func Node(n *corev1.Node) *abi.Node {
	dst := &abi.Node{}
	NodeFields(dst, n, nil)
	return dst
}

// NodeFields fills the fields of dst that have the given numbers in abi.Node, or all of them
// when fields is empty, and leaves the others as they are. Unknown numbers are ignored: a
// guest may be newer than the host. Maps are copied.
func NodeFields(dst *abi.Node, n *corev1.Node, fields []uint32) {
	if len(fields) == 0 {
		for field := uint32(nodeName); field <= nodeMachineID; field++ {
			nodeField(dst, n, field)
		}
		return
	}
	for _, field := range fields {
		nodeField(dst, n, field)
	}
}

func nodeField(dst *abi.Node, n *corev1.Node, field uint32) {
	switch field {
	case nodeName:
		dst.Name = n.Name
	case nodeProviderID:
		dst.ProviderId = n.Spec.ProviderID
	case nodeLabels:
		dst.Labels = maps.Clone(n.Labels)
	case nodeAnnotations:
		dst.Annotations = maps.Clone(n.Annotations)
	case nodeAddresses:
		dst.Addresses = abiAddresses(n.Status.Addresses)
	case nodePodCIDRs:
		dst.PodCidrs = podCIDRs(n)
	case nodeUID:
		dst.Uid = string(n.UID)
	case nodeSystemUUID:
		dst.SystemUuid = n.Status.NodeInfo.SystemUUID
	case nodeMachineID:
		dst.MachineId = n.Status.NodeInfo.MachineID
	}
}

func podCIDRs(n *corev1.Node) []string {
	if len(n.Spec.PodCIDRs) == 0 && n.Spec.PodCIDR != "" {
		return []string{n.Spec.PodCIDR}
	}
	return slices.Clone(n.Spec.PodCIDRs)
}

// abiAddresses drops addresses of types without a number in the ABI.
func abiAddresses(addresses []corev1.NodeAddress) []*abi.NodeAddress {
	if len(addresses) == 0 {
		return nil
	}
	// One allocation for the whole list: node lists are long.
	values := make([]abi.NodeAddress, 0, len(addresses))
	out := make([]*abi.NodeAddress, 0, len(addresses))
	for _, a := range addresses {
		kind, ok := abiAddressType(a.Type)
		if !ok {
			continue
		}
		values = append(values, abi.NodeAddress{Type: kind, Address: a.Address})
		out = append(out, &values[len(values)-1])
	}
	return out
}

func abiAddressType(t corev1.NodeAddressType) (abi.AddressType, bool) {
	switch t {
	case corev1.NodeHostName:
		return abi.AddressType_ADDRESS_TYPE_HOSTNAME, true
	case corev1.NodeInternalIP:
		return abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, true
	case corev1.NodeExternalIP:
		return abi.AddressType_ADDRESS_TYPE_EXTERNAL_IP, true
	case corev1.NodeInternalDNS:
		return abi.AddressType_ADDRESS_TYPE_INTERNAL_DNS, true
	case corev1.NodeExternalDNS:
		return abi.AddressType_ADDRESS_TYPE_EXTERNAL_DNS, true
	}
	return 0, false
}
