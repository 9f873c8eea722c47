package conformance

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

func crashClauses() []clause {
	return needing(abi.GroupLoadBalancers.Required(), []clause{
		{id: "crash-ensure", text: "lb_ensure that is ended before or after any request, asked again, ends as undisturbed, and lb_delete leaves nothing", check: onService(checkCrashEnsure)},
		{id: "crash-update", text: "lb_update that is ended before or after any request, asked again, ends as undisturbed", check: onService(checkCrashUpdate)},
		{id: "crash-delete", text: "lb_delete that is ended before or after any request, asked again, leaves nothing", check: onService(checkCrashDelete)},
		{id: "half-made", text: "what an lb_ensure that was ended at any request has left is deleted as the manager deletes: lb_get says EXISTS as long as anything is there", check: onService(checkHalfMade)},
		{id: "recover-ensure", text: "lb_ensure that meets 503 or 409, or whose request is carried out without an answer, asked again, ends as undisturbed", check: onService(checkRecoverEnsure)},
	})
}

// disturbed runs the plans that end an op, at one position after the other. Run
// reports whether the next position is useful.
func (c *check) disturbed(ctx context.Context, plans []plan, run func(p *plan) (ok bool)) {
	points, what := 0, "points"
	for _, one := range plans {
		for at := 1; c.goesOn(ctx); at++ {
			if at > c.MaxPositions {
				what = fmt.Sprintf("points, the first %d of each kind", c.MaxPositions)
				break
			}
			p := one
			p.at = at
			c.restart(ctx)
			c.trying(&p)
			if !run(&p) {
				return
			}
			if !p.fired {
				break
			}
			points++
		}
	}
	c.tried(points, what)
}

func (c *check) crashes() []plan {
	return []plan{{crash: crashBefore, writes: c.CrashAtWrites}, {crash: crashAfter, writes: c.CrashAtWrites}}
}

func checkCrashEnsure(ctx context.Context, c *check, s *corev1.Service, nodes []*corev1.Node, before []string) {
	c.disturbEnsure(ctx, s, nodes, before, c.crashes())
}

func checkRecoverEnsure(ctx context.Context, c *check, s *corev1.Service, nodes []*corev1.Node, before []string) {
	c.disturbEnsure(ctx, s, nodes, before, []plan{{fault: unavailable(), writes: c.CrashAtWrites}, {fault: conflict(), writes: true}, {fault: lostAnswer(), writes: true}})
}

func (c *check) disturbEnsure(ctx context.Context, s *corev1.Service, nodes []*corev1.Node, before []string, plans []plan) {
	want, ok := c.state(ctx, s)
	if !ok || !c.gone(ctx, s, before, "undisturbed") {
		return
	}
	c.disturbed(ctx, plans, func(p *plan) bool {
		status, o := c.ensured(ctx, p, s, nodes)
		what := "lb_ensure with " + p.String()
		if o.err != nil {
			c.failf(o, "%s: %s", what, o)
		} else if c.checkState(ctx, s, want, o, what) && p.fired {
			c.checkSettled(ctx, s, nodes, status, what)
		}
		return c.gone(ctx, s, before, what)
	})
}

// checkSettled: the op has nothing left to do.
func (c *check) checkSettled(ctx context.Context, s *corev1.Service, nodes []*corev1.Node, status *abi.LoadBalancerStatus, after string) {
	again, o := c.ensured(ctx, nil, s, nodes)
	c.checkQuiet(o, after+", lb_ensure again")
	if o.err == nil && inJSON(again) != inJSON(status) {
		c.failf(o, "%s: the status is %s, and before %s", after, inJSON(again), inJSON(status))
	}
}

// gone deletes a Service as upstream does, and reports whether no trace of it remains.
func (c *check) gone(ctx context.Context, s *corev1.Service, before []string, after string) bool {
	after += ", then lb_get, and lb_delete of what exists"
	o := c.undone(ctx, patient(), s)
	if o.err != nil {
		c.failf(o, "%s: %s", after, o)
		return false
	}
	return c.checkWitness(ctx, before, o, after)
}

// checkHalfMade deletes a Service whose creation was interrupted.
func checkHalfMade(ctx context.Context, c *check, s *corev1.Service, nodes []*corev1.Node, before []string) {
	if !c.gone(ctx, s, before, "undisturbed") {
		return
	}
	c.disturbed(ctx, c.crashes(), func(p *plan) bool {
		c.drive(ctx, true, func(ctx context.Context) outcome {
			_, o := c.lbEnsure(ctx, p, s, nodes)
			if o.crashed {
				o.err = nil // upstream does not repeat it
			}
			return o
		})
		return c.gone(ctx, s, before, "lb_ensure with "+p.String()+", not asked again")
	})
}

func checkCrashUpdate(ctx context.Context, c *check, s *corev1.Service, nodes []*corev1.Node, _ []string) {
	some := nodes[1:]
	o := c.updated(ctx, nil, s, some)
	if o.err != nil {
		c.failf(o, "%s", o)
		return
	}
	want, ok := c.state(ctx, s)
	if !ok {
		return
	}
	c.disturbed(ctx, c.crashes(), func(p *plan) bool {
		if o := c.updated(ctx, nil, s, nodes[:1]); o.err != nil {
			c.failf(o, "%s", o)
			return false
		}
		c.restart(ctx)
		what := fmt.Sprintf("lb_update with %s", p)
		o := c.updated(ctx, p, s, some)
		if o.err != nil {
			c.failf(o, "%s: %s", what, o)
			return false
		}
		return c.checkState(ctx, s, want, o, what)
	})
}

func checkCrashDelete(ctx context.Context, c *check, s *corev1.Service, nodes []*corev1.Node, before []string) {
	c.disturbed(ctx, c.crashes(), func(p *plan) bool {
		if _, o := c.ensured(ctx, nil, s, nodes); o.err != nil {
			c.failf(o, "%s", o)
			return false
		}
		c.restart(ctx)
		what := fmt.Sprintf("lb_delete with %s", p)
		o := c.undone(ctx, p, s)
		if o.err != nil {
			c.failf(o, "%s: %s", what, o)
			return false
		}
		failed := c.failures
		c.checkGone(ctx, s, before, o, what)
		return c.failures == failed
	})
}
