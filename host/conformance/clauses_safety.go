package conformance

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

func safetyClauses() []clause {
	return []clause{
		{id: "safe-exists", text: "whatever the cloud answers, an instance that exists is never said not to", ops: abi.GroupInstances.Required(), check: checkSafeExists},
		{id: "safe-metadata", text: "whatever the cloud answers, metadata is right or an error, and never instance_not_found", ops: abi.GroupInstances.Required(), check: checkSafeMetadata},
		{id: "safe-list", text: "whatever the cloud answers, list_instances is whole or an error", ops: []abi.Op{abi.OpListInstances}, check: checkSafeList},
		{id: "safe-lb-get", text: "whatever the cloud answers, a load balancer that exists is never said not to", ops: abi.GroupLoadBalancers.Required(), check: onService(checkSafeGet)},
		{id: "safe-lb-delete", text: "lb_delete is never done while requests fail, but for the load balancer being gone", ops: abi.GroupLoadBalancers.Required(), check: onService(checkSafeDelete)},
		{id: "safe-routes", text: "whatever the cloud answers, route_list is whole or an error", ops: abi.GroupRoutes.Required(), lacks: noRoutes, check: checkSafeRoutes},
	}
}

// eachFault runs an op with each fault: at all requests, and at each single
// request. Wrong describes a wrong answer, or is "".
func (c *check) eachFault(ctx context.Context, run func(p *plan) (wrong string, o outcome)) {
	runs := 0
	for _, f := range faults() {
		for at := 0; at <= c.MaxPositions && c.goesOn(ctx); at++ {
			p := &plan{at: at, fault: f}
			c.restart(ctx)
			c.trying(p)
			wrong, o := run(p)
			if !p.fired {
				break
			}
			runs++
			switch {
			case wrong != "":
				c.failf(o, "%s: %s", p, wrong)
			case f.hangs && o.took > c.FaultTimeout+grace:
				c.failf(o, "%s: it took %v, the deadline was %v", p, o.took, c.FaultTimeout)
			}
		}
	}
	c.tried(runs, "faults")
}

// String describes a plan.
func (p *plan) String() string {
	what := p.crash.String()
	if p.fault != nil {
		what = "fault " + p.fault.name
	}
	switch {
	case p.at == 0:
		return what + " at every request"
	case p.onwards:
		return fmt.Sprintf("%s from request %d on", what, p.at)
	case p.writes:
		return fmt.Sprintf("%s at write %d", what, p.at)
	}
	return fmt.Sprintf("%s at request %d", what, p.at)
}

// bothWays are a node by name and a node by provider ID.
func (c *check) bothWays(ctx context.Context) []*corev1.Node {
	nodes := c.identified(ctx)
	if len(nodes) == 0 {
		return nil
	}
	byName := nodes[0].DeepCopy()
	byName.Spec.ProviderID = ""
	return []*corev1.Node{byName, nodes[0]}
}

func checkSafeExists(ctx context.Context, c *check) {
	for _, node := range c.bothWays(ctx) {
		c.eachFault(ctx, func(p *plan) (string, outcome) {
			e, o := c.exists(ctx, p, node)
			if o.err == nil && e == abi.Existence_EXISTENCE_DOES_NOT_EXIST {
				return fmt.Sprintf("node %s (provider ID %q) is said not to exist", node.Name, node.Spec.ProviderID), o
			}
			return "", o
		})
	}
}

func checkSafeMetadata(ctx context.Context, c *check) {
	for _, node := range c.bothWays(ctx) {
		right, o := c.metadata(ctx, nil, node)
		if o.err != nil {
			c.failf(o, "%s", o)
			continue
		}
		c.eachFault(ctx, func(p *plan) (string, outcome) {
			m, o := c.metadata(ctx, p, node)
			switch {
			case o.code() == abi.CodeInstanceNotFound:
				return fmt.Sprintf("node %s: %s", node.Name, o), o
			case o.err == nil && inJSON(m) != inJSON(right):
				return fmt.Sprintf("node %s: %s, and without the fault %s", node.Name, inJSON(m), inJSON(right)), o
			}
			return "", o
		})
	}
}

func checkSafeList(ctx context.Context, c *check) {
	all, o := c.listed(ctx, nil, 100)
	if o.err != nil {
		c.failf(o, "%s", o)
		return
	}
	whole := sorted(all)
	c.eachFault(ctx, func(p *plan) (string, outcome) {
		some, o := c.listed(ctx, p, 100)
		if d := differ(whole, sorted(some)); o.err == nil && len(d) > 0 {
			return fmt.Sprintf("%d instances instead of %d: %v", len(some), len(whole), d), o
		}
		return "", o
	})
}

func checkSafeGet(ctx context.Context, c *check, s *corev1.Service, _ []*corev1.Node, _ []string) {
	c.eachFault(ctx, func(p *plan) (string, outcome) {
		got, o := c.lbGet(ctx, p, s)
		if o.err == nil && got.Existence != abi.Existence_EXISTENCE_EXISTS {
			return "the load balancer is said to be " + got.Existence.String(), o
		}
		return "", o
	})
}

// checkSafeDelete recreates a load balancer after each lb_delete that succeeded
// in spite of a fault.
func checkSafeDelete(ctx context.Context, c *check, s *corev1.Service, nodes []*corev1.Node, before []string) {
	c.eachFault(ctx, func(p *plan) (string, outcome) {
		o := c.lbDelete(ctx, p, s)
		if !p.fired {
			return "", o
		}
		if o.err == nil {
			c.checkGone(ctx, s, before, o, p.String()+", lb_delete is ok")
		}
		if _, again := c.ensured(ctx, patient(), s, nodes); again.err != nil {
			return "making it again afterwards: " + again.String(), again
		}
		return "", o
	})
}

func checkSafeRoutes(ctx context.Context, c *check) {
	defer c.removeRoutes(ctx)
	if !c.makeRoutes(ctx) {
		return
	}
	all, o := c.routes(ctx, nil)
	if o.err != nil {
		c.failf(o, "%s", o)
		return
	}
	whole := routeLines(all)
	c.eachFault(ctx, func(p *plan) (string, outcome) {
		some, o := c.routes(ctx, p)
		if d := differ(whole, routeLines(some)); o.err == nil && len(d) > 0 {
			return fmt.Sprintf("%d routes instead of %d: %v", len(some), len(whole), d), o
		}
		return "", o
	})
}
