// Package routes serves the pod networks of Nodes by the extra routes of one
// Neutron router. A route is complete when the router has it and the Node's
// port lets the pods' addresses out (allowed_address_pairs).
//
// The router's entry is the record: it is made first and removed last. So the
// next List finds what a crash left behind, and the route is completed or
// deleted.
package routes

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// Routes are those of the configured router, within one op.
type Routes struct {
	c        *api.Client
	routerID string
	networks map[string]bool // of the router; nil: not read yet
	epoch    *string         // of sights; nil: not read yet
}

// New makes no call.
func New(c *api.Client, config *cloudconf.Config) *Routes {
	return &Routes{c: c, routerID: config.Route.RouterID}
}

// List returns all routes of the router, including those of other clusters and
// of administrators: upstream ignores those outside of the cluster's CIDRs. It
// is never partial: an unreadable part is an error.
//
// One call, GET of the router, if all routes were seen in the last five
// minutes; else one more for the ports of each 80 next hops, and one for the
// names of the servers (a few servers: one each).
//
// A route under creation is left out, so that its creation is completed. A
// half-made route comes first and is listed as having node addresses, but none:
// upstream then deletes it and, if its Node exists, creates it again.
func (r *Routes) List() ([]*abi.Route, error) {
	router, err := r.router()
	if err != nil {
		return nil, err
	}
	var halves, wholes []*abi.Route
	var unknown []extraRoute
	for _, route := range *router.Routes {
		if seen := r.remembered(route); seen.state == unseen || seen.state == removing {
			unknown = append(unknown, route)
		} else {
			halves, wholes = sort(route, seen, halves, wholes)
		}
	}
	found, err := r.look(unknown)
	if err != nil {
		return nil, fmt.Errorf("finding the servers of the routes of router %s: %w", r.routerID, err)
	}
	for i, route := range unknown {
		r.remember(route, found[i])
		halves, wholes = sort(route, found[i], halves, wholes)
	}
	return append(halves, wholes...), nil
}

func sort(route extraRoute, seen sight, halves, wholes []*abi.Route) ([]*abi.Route, []*abi.Route) {
	listed := &abi.Route{Name: route.name(), DestinationCidr: route.cidr(), TargetNode: seen.node}
	switch seen.state {
	case making:
		return halves, wholes
	case half:
		listed.HasTargetNodeAddresses = true
		return append(halves, listed), wholes
	case gone:
		listed.TargetNode, listed.Blackhole = route.NextHop, true
	}
	return halves, append(wholes, listed)
}

// Create makes the router send a pod network to the Node's InternalIP of its
// family. Five calls: the port of the address, the router, the route, the
// router again (see change), the port's allowed_address_pairs; two if all is
// present.
func (r *Routes) Create(request *abi.RouteCreateRequest) error {
	cidr, err := destination(request.Route)
	if err != nil {
		return err
	}
	node := request.Route.TargetNode
	address, err := nextHop(request.Route, cidr)
	if err != nil {
		return err
	}
	p, err := r.portOf(address)
	if err != nil {
		return err
	}
	if p == nil {
		return sdk.InstanceNotFound(fmt.Sprintf("a route to %s by node %s: no port of this project has its address %s; the Node's InternalIP must be that of a port on a network of router %s",
			cidr, node, address, r.routerID))
	}
	route := extraRoute{Destination: cidr.String(), NextHop: address.String()}
	before := r.remembered(route)
	r.remember(route, sight{state: making})
	if err := r.change(route, true, before.state == making); err != nil {
		return fmt.Errorf("a route to %s by node %s at %s: %w", cidr, node, address, err)
	}
	if _, err := r.setPair(p, cidr, true); err != nil {
		return fmt.Errorf("port %s of node %s: allowing the addresses %s: %w", p.ID, node, cidr, err)
	}
	r.remember(route, sight{state: whole, node: node})
	return nil
}

// Delete removes a listed route, with or without its Node. Six calls: the port
// of the next hop, its allowed_address_pairs, the router, the route, the router
// and the port again; four if the port is gone or has no pair, two if nothing
// is left. A route not listed by this name is found by its destination and
// Node, see List.
func (r *Routes) Delete(request *abi.RouteDeleteRequest) error {
	cidr, err := destination(request.Route)
	if err != nil {
		return err
	}
	if route, ok := parseName(request.Route.Name); ok && route.cidr() == cidr.String() {
		return r.delete(route, cidr)
	}
	listed, err := r.List()
	if err != nil {
		return err
	}
	for _, other := range listed {
		if other.DestinationCidr != cidr.String() || other.TargetNode != request.Route.TargetNode {
			continue
		}
		route, _ := parseName(other.Name)
		if err := r.delete(route, cidr); err != nil {
			return err
		}
	}
	return nil
}

func (r *Routes) delete(route extraRoute, cidr netip.Prefix) error {
	before := r.remembered(route)
	r.remember(route, sight{state: removing})
	address, err := netip.ParseAddr(route.NextHop)
	if err != nil {
		return sdk.Invalidf("the route %q has no address behind %q", route.name(), via)
	}
	p, err := r.portOf(address)
	if err != nil {
		return err
	}
	had, err := r.forbid(p, cidr)
	if err != nil {
		return fmt.Errorf("port %s of the route %s: removing the addresses: %w", p.ID, route.name(), err)
	}
	if err := r.change(route, false, before.state == removing); err != nil {
		return fmt.Errorf("the route %s: %w", route.name(), err)
	}
	r.remember(route, sight{state: unseen})
	if !had {
		return nil
	}
	if p, err = r.readPort(p.ID); err == nil { // another change may have restored them
		_, err = r.forbid(p, cidr)
	}
	if err != nil && !api.IsNotFound(err) {
		return fmt.Errorf("the port of the route %s: looking whether the addresses are gone: %w", route.name(), err)
	}
	return nil
}

// forbid removes the addresses from a port and reports whether it had them. A
// port that is gone has none.
func (r *Routes) forbid(p *port, cidr netip.Prefix) (bool, error) {
	if p == nil {
		return false, nil
	}
	had, err := r.setPair(p, cidr, false)
	if api.IsNotFound(err) {
		return false, nil
	}
	return had, err
}

// destination wants the CIDR in the form of later lists, since upstream
// compares texts: another spelling would be deleted and created for ever.
func destination(route *abi.Route) (netip.Prefix, error) {
	text := route.DestinationCidr
	cidr, err := netip.ParsePrefix(text)
	if err != nil {
		return cidr, sdk.Invalidf("the route's destination %q is not a CIDR", text)
	}
	if cidr = cidr.Masked(); cidr.String() != text {
		return cidr, sdk.Invalidf("the route's destination %q has to be written %q in spec.podCIDRs of the Node", text, cidr)
	}
	return cidr, nil
}

// nextHop is the first InternalIP of the CIDR's family.
func nextHop(route *abi.Route, cidr netip.Prefix) (netip.Addr, error) {
	for _, a := range route.TargetNodeAddresses {
		address, err := netip.ParseAddr(a.Address)
		if err == nil && a.Type == abi.AddressType_ADDRESS_TYPE_INTERNAL_IP && address.Is4() == cidr.Addr().Is4() {
			return address, nil
		}
	}
	family := "IPv6"
	if cidr.Addr().Is4() {
		family = "IPv4"
	}
	return netip.Addr{}, sdk.Invalidf("a route to %s needs an address: node %s has no InternalIP of %s", cidr, route.TargetNode, family)
}

// via is a part of routes' names, which upstream passes to Delete.
const via = " via "

func (route extraRoute) name() string { return route.Destination + via + route.NextHop }

// cidr is the destination as Kubernetes spells it.
func (route extraRoute) cidr() string {
	cidr, err := netip.ParsePrefix(route.Destination)
	if err != nil {
		return "" // of a foreign name
	}
	return cidr.Masked().String()
}

func parseName(name string) (route extraRoute, ok bool) {
	route.Destination, route.NextHop, ok = strings.Cut(name, via)
	return route, ok
}
