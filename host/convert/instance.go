package convert

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// InstanceMetadata checks and converts what a guest says of an instance. A nil
// message is an error: upstream's node controller does not survive a nil.
func InstanceMetadata(m *abi.InstanceMetadata) (*cloudprovider.InstanceMetadata, error) {
	if m == nil {
		return nil, errors.New("the answer has no metadata")
	}
	if err := checkText("provider_id", m.ProviderId, MaxProviderIDBytes); err != nil {
		return nil, err
	}
	for what, value := range map[string]string{"instance_type": m.InstanceType, "zone": m.Zone, "region": m.Region} {
		if err := checkLabelValue(what, value); err != nil {
			return nil, err
		}
	}
	if err := checkLabels(m.AdditionalLabels); err != nil {
		return nil, fmt.Errorf("additional_labels: %w", err)
	}
	addresses, err := addresses(m.Addresses)
	if err != nil {
		return nil, err
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID:       m.ProviderId,
		InstanceType:     m.InstanceType,
		NodeAddresses:    addresses,
		Zone:             m.Zone,
		Region:           m.Region,
		AdditionalLabels: maps.Clone(m.AdditionalLabels),
	}, nil
}

// addresses leaves out repeated addresses, which the API server refuses.
func addresses(in []*abi.NodeAddress) ([]corev1.NodeAddress, error) {
	if len(in) > MaxAddresses {
		return nil, fmt.Errorf("%d addresses, at most %d are allowed", len(in), MaxAddresses)
	}
	var out []corev1.NodeAddress
	for i, a := range in {
		address, err := address(a)
		if err != nil {
			return nil, fmt.Errorf("addresses[%d]: %w", i, err)
		}
		if !slices.Contains(out, address) {
			out = append(out, address)
		}
	}
	return out, nil
}

func address(a *abi.NodeAddress) (corev1.NodeAddress, error) {
	kind, err := addressType(a.GetType())
	if err != nil {
		return corev1.NodeAddress{}, err
	}
	text := a.GetAddress()
	if kind == corev1.NodeInternalIP || kind == corev1.NodeExternalIP {
		ip, err := parseIP(text)
		return corev1.NodeAddress{Type: kind, Address: ip}, err
	}
	if text == "" {
		return corev1.NodeAddress{}, fmt.Errorf("a %s without a name", kind)
	}
	if err := checkText(string(kind), text, maxAddressBytes); err != nil {
		return corev1.NodeAddress{}, err
	}
	return corev1.NodeAddress{Type: kind, Address: text}, nil
}

func addressType(t abi.AddressType) (corev1.NodeAddressType, error) {
	switch t {
	case abi.AddressType_ADDRESS_TYPE_HOSTNAME:
		return corev1.NodeHostName, nil
	case abi.AddressType_ADDRESS_TYPE_INTERNAL_IP:
		return corev1.NodeInternalIP, nil
	case abi.AddressType_ADDRESS_TYPE_EXTERNAL_IP:
		return corev1.NodeExternalIP, nil
	case abi.AddressType_ADDRESS_TYPE_INTERNAL_DNS:
		return corev1.NodeInternalDNS, nil
	case abi.AddressType_ADDRESS_TYPE_EXTERNAL_DNS:
		return corev1.NodeExternalDNS, nil
	}
	return "", fmt.Errorf("unknown address type %d", int32(t))
}

// parseIP returns the one spelling of an address that Kubernetes recommends,
// so that two spellings never look like a change.
func parseIP(s string) (string, error) {
	ip, err := netip.ParseAddr(s)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s is not an IP address", quote(s))
	case ip.Zone() != "":
		return "", fmt.Errorf("%s has a zone, which Kubernetes does not know", quote(s))
	case ip.IsUnspecified():
		return "", fmt.Errorf("%s is nobody's address", quote(s))
	}
	return ip.Unmap().String(), nil
}
