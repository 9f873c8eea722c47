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
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
)

// InstanceMetadataAnswer checks and converts what a guest answers about a Node:
// nil without an error is its word for a Node that is not the provider's.
func InstanceMetadataAnswer(answer *abi.InstanceMetadataResponse, policy *addresses.Policy) (*cloudprovider.InstanceMetadata, error) {
	switch {
	case !answer.GetNotMine():
		return InstanceMetadata(answer.GetMetadata(), policy)
	case answer.GetMetadata() != nil:
		return nil, errors.New("the answer is not_mine, and has metadata as well: leave out one of the two")
	}
	return nil, nil
}

// InstanceMetadata checks and converts what a guest says of an instance. A nil
// message is an error: silence is no answer. One
// address that the policy refuses refuses them all: a Node with a part of its
// addresses is another Node.
func InstanceMetadata(m *abi.InstanceMetadata, policy *addresses.Policy) (*cloudprovider.InstanceMetadata, error) {
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
	all, err := cloudAddresses(m.Addresses, policy)
	if err != nil {
		return nil, err
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID:       m.ProviderId,
		InstanceType:     m.InstanceType,
		NodeAddresses:    all,
		Zone:             m.Zone,
		Region:           m.Region,
		AdditionalLabels: maps.Clone(m.AdditionalLabels),
	}, nil
}

// steering is what decides about a Node's addresses.
type steering interface {
	IP(netip.Addr) error
	NodeName(string) error
}

// cloudAddresses leaves out repeated addresses, which the API server refuses.
func cloudAddresses(in []*abi.NodeAddress, policy steering) ([]corev1.NodeAddress, error) {
	if len(in) > MaxAddresses {
		return nil, fmt.Errorf("%d addresses, at most %d are allowed", len(in), MaxAddresses)
	}
	var out []corev1.NodeAddress
	for i, a := range in {
		address, err := cloudAddress(a, policy)
		if err != nil {
			return nil, fmt.Errorf("addresses[%d]: %w", i, err)
		}
		if !slices.Contains(out, address) {
			out = append(out, address)
		}
	}
	return out, nil
}

func cloudAddress(a *abi.NodeAddress, policy steering) (corev1.NodeAddress, error) {
	kind, err := addressType(a.GetType())
	if err != nil {
		return corev1.NodeAddress{}, err
	}
	text := a.GetAddress()
	if kind == corev1.NodeInternalIP || kind == corev1.NodeExternalIP {
		ip, err := checkIP(text, policy)
		return corev1.NodeAddress{Type: kind, Address: ip}, err
	}
	if text == "" {
		return corev1.NodeAddress{}, fmt.Errorf("a %s without a name", kind)
	}
	if err := checkText(string(kind), text, maxAddressBytes); err != nil {
		return corev1.NodeAddress{}, err
	}
	// Invariant A3 (host/SECURITY.md): what is no address is a name, and decided as one.
	if err := policy.NodeName(text); err != nil {
		return corev1.NodeAddress{}, fmt.Errorf("%s: %w", kind, err)
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

// checkIP returns the one spelling of an address that Kubernetes recommends, so
// that two spellings never look like a change.
func checkIP(text string, policy interface{ IP(netip.Addr) error }) (string, error) {
	ip, err := addresses.ParseIP(text)
	if err != nil {
		return "", err
	}
	// Invariant A1 (host/SECURITY.md): no address of an answer gets into an object but by way of
	// this.
	return ip.String(), policy.IP(ip)
}
