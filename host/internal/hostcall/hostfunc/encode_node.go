package hostfunc

import (
	"encoding/binary"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// lastNodeField is the highest field number of abi.Node known to this host.
const lastNodeField = 9

// appendNode appends the encoded abi.Node of n with the fields of the given numbers; unknown
// ones are ignored. It combines convert.NodeFields and the codec, without intermediate
// objects; a test compares them.
func appendNode(out []byte, n *corev1.Node, fields []uint32) []byte {
	for _, field := range fields {
		switch field {
		case 1:
			out = appendText(out, field, n.Name)
		case 2:
			out = appendText(out, field, n.Spec.ProviderID)
		case 3:
			out = appendMap(out, field, n.Labels)
		case 4:
			out = appendMap(out, field, n.Annotations)
		case 5:
			out = appendAddresses(out, field, n.Status.Addresses)
		case 6:
			out = appendPodCIDRs(out, field, n)
		case 7:
			out = appendText(out, field, string(n.UID))
		case 8:
			out = appendText(out, field, n.Status.NodeInfo.SystemUUID)
		case 9:
			out = appendText(out, field, n.Status.NodeInfo.MachineID)
		}
	}
	return out
}

// appendText appends a text field; an empty one is absent, by proto3.
func appendText(out []byte, field uint32, s string) []byte {
	if s == "" {
		return out
	}
	return append(appendHeader(out, field, len(s)), s...)
}

// appendHeader appends the tag and the length of a field.
func appendHeader(out []byte, field uint32, size int) []byte {
	return binary.AppendUvarint(append(out, byte(field<<3|2)), uint64(size))
}

// textSize is the size of appendText's output.
func textSize(s string) int {
	if s == "" {
		return 0
	}
	size := 2 + len(s)
	for rest := len(s) >> 7; rest > 0; rest >>= 7 {
		size++
	}
	return size
}

func appendMap(out []byte, field uint32, m map[string]string) []byte {
	for key, value := range m {
		out = appendHeader(out, field, textSize(key)+textSize(value))
		out = appendText(appendText(out, 1, key), 2, value)
	}
	return out
}

// appendPodCIDRs falls back to the old, single field.
func appendPodCIDRs(out []byte, field uint32, n *corev1.Node) []byte {
	if len(n.Spec.PodCIDRs) == 0 {
		return appendText(out, field, n.Spec.PodCIDR)
	}
	for _, cidr := range n.Spec.PodCIDRs {
		out = append(appendHeader(out, field, len(cidr)), cidr...)
	}
	return out
}

// appendAddresses drops types without a number in the ABI.
func appendAddresses(out []byte, field uint32, addresses []corev1.NodeAddress) []byte {
	for i := range addresses {
		kind := addressType(addresses[i].Type)
		if kind == abi.AddressType_ADDRESS_TYPE_UNSPECIFIED {
			continue
		}
		const typeSize = 2 // a tag and a small number
		out = appendHeader(out, field, typeSize+textSize(addresses[i].Address))
		out = appendText(append(out, 1<<3, byte(kind)), 2, addresses[i].Address)
	}
	return out
}

func addressType(t corev1.NodeAddressType) abi.AddressType {
	switch t {
	case corev1.NodeHostName:
		return abi.AddressType_ADDRESS_TYPE_HOSTNAME
	case corev1.NodeInternalIP:
		return abi.AddressType_ADDRESS_TYPE_INTERNAL_IP
	case corev1.NodeExternalIP:
		return abi.AddressType_ADDRESS_TYPE_EXTERNAL_IP
	case corev1.NodeInternalDNS:
		return abi.AddressType_ADDRESS_TYPE_INTERNAL_DNS
	case corev1.NodeExternalDNS:
		return abi.AddressType_ADDRESS_TYPE_EXTERNAL_DNS
	}
	return abi.AddressType_ADDRESS_TYPE_UNSPECIFIED
}
