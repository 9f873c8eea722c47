package convert

import (
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
)

// Route returns the message of a route. The addresses count whenever there are any: upstream
// fills them in for a new route without setting EnableNodeAddresses.
func Route(r *cloudprovider.Route) *abi.Route {
	if r == nil {
		return nil
	}
	return &abi.Route{
		Name:                   r.Name,
		TargetNode:             string(r.TargetNode),
		TargetNodeAddresses:    abiAddresses(r.TargetNodeAddresses),
		HasTargetNodeAddresses: r.EnableNodeAddresses || len(r.TargetNodeAddresses) > 0,
		DestinationCidr:        r.DestinationCIDR,
		Blackhole:              r.Blackhole,
	}
}

// CloudRoutes checks and converts the routes that a guest listed, and returns the policy's
// error for each dropped route. One invalid route refuses them all: a missing route of a
// Node would be created again. A destination that the policy refuses cannot hold a Node's
// pods, and a shared network has such routes: the default route, for example.
func CloudRoutes(in []*abi.Route, policy *addresses.Policy) (out []*cloudprovider.Route, foreign []error, err error) {
	if len(in) > MaxRoutes {
		return nil, nil, fmt.Errorf("%d routes, at most %d are allowed", len(in), MaxRoutes)
	}
	out = make([]*cloudprovider.Route, 0, len(in))
	for i, r := range in {
		destination, err := addresses.ParseCIDR(value(r).DestinationCidr)
		if err != nil {
			return nil, nil, fmt.Errorf("routes[%d]: destination_cidr %w", i, err)
		}
		route, err := cloudRoute(r)
		if err != nil {
			return nil, nil, fmt.Errorf("routes[%d]: %w", i, err)
		}
		// Invariant A4 (host/SECURITY.md): upstream compares with a list without such routes.
		if err := policy.Destination(destination); err != nil {
			foreign = append(foreign, fmt.Errorf("routes[%d]: %w", i, err))
			continue
		}
		out = append(out, route)
	}
	return out, foreign, nil
}

// cloudRoute keeps the spelling of the destination: upstream compares it with the node's
// CIDR as a string. The target's addresses are only compared with the Node's, and never
// written: there is nothing to refuse in them.
func cloudRoute(r *abi.Route) (*cloudprovider.Route, error) {
	if err := checkText("name", r.Name, maxNameBytes); err != nil {
		return nil, err
	}
	if err := checkText("target_node", r.TargetNode, maxAddressBytes); err != nil {
		return nil, err
	}
	route := &cloudprovider.Route{
		Name:                r.Name,
		TargetNode:          types.NodeName(r.TargetNode),
		EnableNodeAddresses: r.HasTargetNodeAddresses,
		DestinationCIDR:     r.DestinationCidr,
		Blackhole:           r.Blackhole,
	}
	if !route.EnableNodeAddresses {
		return route, nil
	}
	var err error
	if route.TargetNodeAddresses, err = cloudAddresses(r.TargetNodeAddresses, anywhere{}); err != nil {
		return nil, fmt.Errorf("target_node_%w", err)
	}
	return route, nil
}

// anywhere is the policy for addresses that steer nothing.
type anywhere struct{}

func (anywhere) IP(netip.Addr) error   { return nil }
func (anywhere) NodeName(string) error { return nil }
