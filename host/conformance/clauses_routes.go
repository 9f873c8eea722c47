package conformance

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

func routeClauses() []clause {
	return []clause{
		{id: "route-life", text: "routes are made, listed once and removed; making and removing again is ok and writes nothing", ops: abi.GroupRoutes.Required(), lacks: noRoutes, check: checkRoutes},
		{id: "route-unknown", text: "a route to an instance that the cloud does not have is an error, and is not made", ops: abi.GroupRoutes.Required(), lacks: noRoutes, check: checkRouteUnknown},
		{id: "route-crash", text: "route_create and route_delete that are ended before or after any request, asked again, end as undisturbed", ops: abi.GroupRoutes.Required(), lacks: noRoutes, check: checkRouteCrash},
	}
}

func noRoutes(k *kit) string {
	if len(k.Cases.Routes) == 0 {
		return "the cases have no routes"
	}
	return ""
}

// wantedRoutes are the routes of the cases, in the route controller's form.
func (k *kit) wantedRoutes(ctx context.Context) (all []*abi.Route) {
	byName := map[string]*corev1.Node{}
	for _, n := range k.backends(ctx) {
		byName[n.Name] = n
	}
	for _, r := range k.Cases.Routes {
		all = append(all, routeTo(byName[r.Node], r.CIDR))
	}
	return all
}

func routeTo(n *corev1.Node, cidr string) *abi.Route {
	route := &abi.Route{TargetNode: n.Name, DestinationCidr: cidr, HasTargetNodeAddresses: len(n.Status.Addresses) > 0}
	for _, a := range n.Status.Addresses {
		kind := abi.AddressType_ADDRESS_TYPE_HOSTNAME
		switch a.Type {
		case corev1.NodeInternalIP:
			kind = abi.AddressType_ADDRESS_TYPE_INTERNAL_IP
		case corev1.NodeExternalIP:
			kind = abi.AddressType_ADDRESS_TYPE_EXTERNAL_IP
		case corev1.NodeInternalDNS:
			kind = abi.AddressType_ADDRESS_TYPE_INTERNAL_DNS
		case corev1.NodeExternalDNS:
			kind = abi.AddressType_ADDRESS_TYPE_EXTERNAL_DNS
		}
		route.TargetNodeAddresses = append(route.TargetNodeAddresses, &abi.NodeAddress{Type: kind, Address: a.Address})
	}
	return route
}

// routeLines lists node and destination of each route.
func routeLines(all []*abi.Route) []string {
	lines := make([]string, len(all))
	for i, r := range all {
		lines[i] = r.TargetNode + " " + r.DestinationCidr
	}
	slices.Sort(lines)
	return lines
}

func hint(r *abi.Route) string { return string(uidOf("node/" + r.TargetNode)) }

func (c *check) created(ctx context.Context, p *plan, r *abi.Route) outcome {
	return c.drive(ctx, p != nil, func(ctx context.Context) outcome { return c.routeCreate(ctx, p, hint(r), r) })
}

func (c *check) unrouted(ctx context.Context, p *plan, r *abi.Route) outcome {
	return c.drive(ctx, p != nil, func(ctx context.Context) outcome { return c.routeDelete(ctx, p, r) })
}

func (c *check) makeRoutes(ctx context.Context) bool {
	for _, r := range c.wantedRoutes(ctx) {
		if o := c.created(ctx, nil, r); o.err != nil {
			c.failf(o, "route %s to %s: %s", r.DestinationCidr, r.TargetNode, o)
			return false
		}
	}
	return true
}

// removeRoutes cleans up.
func (c *check) removeRoutes(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	for _, r := range c.wantedRoutes(ctx) {
		if listed := c.find(ctx, r); listed != nil {
			c.unrouted(ctx, patient(), listed)
		}
	}
}

// find returns the listed route, for its deletion by the controller.
func (c *check) find(ctx context.Context, want *abi.Route) *abi.Route {
	all, _ := c.routes(ctx, nil)
	for _, r := range all {
		if r.TargetNode == want.TargetNode && r.DestinationCidr == want.DestinationCidr {
			return r
		}
	}
	return nil
}

func checkRoutes(ctx context.Context, c *check) {
	c.removeRoutes(ctx)
	begin, o := c.routes(ctx, nil)
	before, err := c.witness(ctx)
	if o.err != nil || err != nil {
		c.failf(o, "%s, %v", o, err)
		return
	}
	defer c.removeRoutes(ctx)
	if !c.makeRoutes(ctx) {
		return
	}
	wanted := c.wantedRoutes(ctx)
	all, o := c.routes(ctx, nil)
	want := slices.Sorted(slices.Values(append(routeLines(begin), routeLines(wanted)...)))
	if d := differ(want, routeLines(all)); o.err != nil || len(d) > 0 {
		c.failf(o, "after route_create: %s, %v", o, d)
	}
	for _, r := range wanted {
		c.restart(ctx)
		c.checkQuiet(c.created(ctx, nil, r), "route_create again")
		c.checkUnrouted(ctx, r)
	}
	c.checkWitness(ctx, before, outcome{}, "after route_delete")
	c.notef("%d routes", len(wanted))
}

// checkUnrouted deletes a route twice.
func (c *check) checkUnrouted(ctx context.Context, r *abi.Route) {
	listed := c.find(ctx, r)
	if listed == nil {
		c.failf(outcome{}, "the route %s to %s is not listed", r.DestinationCidr, r.TargetNode)
		return
	}
	if o := c.unrouted(ctx, nil, listed); o.err != nil {
		c.failf(o, "route %s to %s: %s", r.DestinationCidr, r.TargetNode, o)
	}
	c.restart(ctx)
	c.checkQuiet(c.unrouted(ctx, nil, listed), "route_delete again")
	if c.find(ctx, r) != nil {
		c.failf(outcome{}, "the route %s to %s is listed after route_delete", r.DestinationCidr, r.TargetNode)
	}
}

func checkRouteUnknown(ctx context.Context, c *check) {
	before, o := c.routes(ctx, nil)
	if o.err != nil {
		c.failf(o, "%s", o)
		return
	}
	node := c.Cases.UnknownNode
	if node.Addresses == nil {
		node.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "203.0.113.254"}}
	}
	r := routeTo(node.object(), c.Cases.Routes[0].CIDR)
	if o := c.routeCreate(ctx, nil, hint(r), r); o.err == nil {
		c.failf(o, "route_create to %s is ok", r.TargetNode)
		defer c.unrouted(ctx, nil, r)
	}
	after, o := c.routes(ctx, nil)
	if d := differ(routeLines(before), routeLines(after)); o.err != nil || len(d) > 0 {
		c.failf(o, "after it: %s, %v", o, d)
	}
}

func checkRouteCrash(ctx context.Context, c *check) {
	c.removeRoutes(ctx)
	defer c.removeRoutes(ctx)
	before, err := c.witness(ctx)
	if err != nil {
		c.failf(outcome{}, "%v", err)
		return
	}
	r := c.wantedRoutes(ctx)[0]
	plans := append(c.crashes(), plan{fault: unavailable()}, plan{fault: conflict(), writes: true}, plan{fault: lostAnswer(), writes: true})
	c.disturbed(ctx, plans, func(p *plan) bool {
		failed := c.failures
		again := *p // the same for route_delete
		if o := c.created(ctx, p, r); o.err != nil {
			c.failf(o, "route_create with %s: %s", p, o)
		}
		listed := c.find(ctx, r)
		if listed == nil {
			c.failf(outcome{}, "route_create with %s: the route is not listed", p)
			return false
		}
		c.restart(ctx)
		o := c.unrouted(ctx, &again, listed)
		if o.err != nil || c.find(ctx, r) != nil {
			c.failf(o, "route_delete with %s: %s, listed: %t", p, o, c.find(ctx, r) != nil)
		}
		c.checkWitness(ctx, before, o, fmt.Sprintf("after route_create and route_delete with %s", p))
		p.fired = p.fired || again.fired
		return c.failures == failed
	})
}
