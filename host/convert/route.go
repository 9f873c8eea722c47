package convert

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	netutils "k8s.io/utils/net"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Route returns the message of a route. The addresses mean something when the
// route has any: upstream fills them in for a new route without setting
// EnableNodeAddresses.
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

// CloudRoutes checks and converts the routes that a guest listed. One invalid
// route refuses them all: a route that is left out would be created again.
func CloudRoutes(in []*abi.Route) ([]*cloudprovider.Route, error) {
	if len(in) > MaxRoutes {
		return nil, fmt.Errorf("%d routes, at most %d are allowed", len(in), MaxRoutes)
	}
	out := make([]*cloudprovider.Route, 0, len(in))
	for i, r := range in {
		route, err := cloudRoute(r)
		if err != nil {
			return nil, fmt.Errorf("routes[%d]: %w", i, err)
		}
		out = append(out, route)
	}
	return out, nil
}

// cloudRoute keeps the spelling of the destination: upstream compares it with
// the node's CIDR as a string.
func cloudRoute(r *abi.Route) (*cloudprovider.Route, error) {
	if err := checkText("name", r.GetName(), maxNameBytes); err != nil {
		return nil, err
	}
	if err := checkText("target_node", r.GetTargetNode(), maxAddressBytes); err != nil {
		return nil, err
	}
	destination := r.GetDestinationCidr()
	if _, _, err := netutils.ParseCIDRSloppy(destination); err != nil {
		return nil, fmt.Errorf("destination_cidr %s is not a CIDR", quote(destination))
	}
	route := &cloudprovider.Route{
		Name:                r.GetName(),
		TargetNode:          types.NodeName(r.GetTargetNode()),
		EnableNodeAddresses: r.GetHasTargetNodeAddresses(),
		DestinationCIDR:     destination,
		Blackhole:           r.GetBlackhole(),
	}
	if !route.EnableNodeAddresses {
		return route, nil
	}
	var err error
	if route.TargetNodeAddresses, err = addresses(r.GetTargetNodeAddresses()); err != nil {
		return nil, fmt.Errorf("target_node_%w", err)
	}
	return route, nil
}
