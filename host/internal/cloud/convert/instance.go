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

// InstanceMetadataAnswer checks and converts a guest's answer about a Node: nil without an
// error means that the Node is not the provider's.
func InstanceMetadataAnswer(answer *abi.InstanceMetadataResponse, policy *addresses.Policy) (*cloudprovider.InstanceMetadata, error) {
	switch {
	case !answer.NotMine:
		return InstanceMetadata(answer.Metadata, policy)
	case answer.Metadata != nil:
		return nil, errors.New("the answer is not_mine, and has metadata as well: leave out one of the two")
	}
	return nil, nil
}

// InstanceMetadata checks and converts a guest's metadata of an instance. A nil message is
// an error: silence is no answer. One refused address refuses all: a Node with some of its
// addresses is another Node.
func InstanceMetadata(m *abi.InstanceMetadata, policy *addresses.Policy) (*cloudprovider.InstanceMetadata, error) {
	if m == nil {
		return nil, errors.New("the answer has no metadata")
	}
	if err := checkText("provider_id", m.ProviderId, MaxProviderIDBytes); err != nil {
		return nil, err
	}
	for _, label := range [...]struct{ what, value string }{{"instance_type", m.InstanceType}, {"zone", m.Zone}, {"region", m.Region}} {
		if err := checkLabelValue(label.what, label.value); err != nil {
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

// steering is the policy about a Node's addresses.
type steering interface {
	IP(netip.Addr) error
	NodeName(string) error
}

// cloudAddresses drops repeated addresses, which the API server refuses.
func cloudAddresses(in []*abi.NodeAddress, policy steering) ([]corev1.NodeAddress, error) {
	if len(in) > MaxAddresses {
		return nil, fmt.Errorf("%d addresses, at most %d are allowed", len(in), MaxAddresses)
	}
	if len(in) == 0 {
		return nil, nil
	}
	out := make([]corev1.NodeAddress, 0, len(in))
	for i, a := range in {
		address, err := cloudAddress(value(a), policy)
		if err != nil {
			return nil, fmt.Errorf("addresses[%d]: %w", i, err)
		}
		if !slices.Contains(out, address) {
			out = append(out, address)
		}
	}
	return out, nil
}

func cloudAddress(a abi.NodeAddress, policy steering) (corev1.NodeAddress, error) {
	kind, err := addressType(a.Type)
	if err != nil {
		return corev1.NodeAddress{}, err
	}
	text := a.Address
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
	// Invariant A3 (host/SECURITY.md): a text that is no address is checked as a name.
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

// checkIP returns an address in the spelling that Kubernetes recommends, so that another
// spelling never looks like a change.
func checkIP(text string, policy interface{ IP(netip.Addr) error }) (string, error) {
	ip, err := addresses.ParseIP(text)
	if err != nil {
		return "", err
	}
	// Invariant A1 (host/SECURITY.md): every address of an answer passes this check on its way
	// into an object.
	if err := policy.IP(ip); err != nil {
		return "", err
	}
	if written := ip.AppendTo(make([]byte, 0, 64)); string(written) != text {
		return string(written), nil
	}
	return text, nil // most clouds write this spelling
}
