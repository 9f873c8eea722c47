package conformance

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

func faultClauses() []clause {
	return []clause{
		{id: "fault-error", text: "an op whose requests fail, from one of them on, is an error that names the cloud's status", check: checkFaultError},
		{id: "fault-401", text: "an op whose requests are answered 401, from one of them on, is unauthenticated", check: checkFault401},
		{id: "throttled", text: "429 with Retry-After is passed on with at least that delay, or is an error, after few requests", check: checkThrottled},
		{id: "hang", text: "an op whose cloud hangs ends by its deadline, as an error", check: checkHang},
	}
}

// subject is a repeatable op, for tests in which its requests fail.
type subject struct {
	name string
	ask  func(p *plan) outcome
	// prepare creates work for the op; may be nil.
	prepare func()
}

// subjects are the ops of this guest. Their objects exist until remove is
// called.
func (c *check) subjects(ctx context.Context) (all []subject, remove func()) {
	add := func(name string, ask func(p *plan) outcome) { all = append(all, subject{name: name, ask: ask}) }
	remove = func() {}
	add("probe", func(p *plan) outcome { return c.probe(ctx, p) })
	if c.slot.Supports(abi.OpInstanceExists) {
		for _, node := range c.bothWays(ctx) {
			add("instance_exists", func(p *plan) outcome { _, o := c.exists(ctx, p, node); return o })
			add("instance_metadata", func(p *plan) outcome { _, o := c.metadata(ctx, p, node); return o })
		}
	}
	if c.slot.Supports(abi.OpListInstances) {
		add("list_instances", func(p *plan) outcome { _, o := c.list(ctx, p, "", 100); return o })
	}
	if c.slot.Supports(abi.OpLoadBalancerEnsure) {
		var balancers []subject
		balancers, remove = c.balancerSubjects(ctx)
		all = append(all, balancers...)
	}
	if c.slot.Supports(abi.OpRouteCreate) && len(c.Cases.Routes) > 0 {
		balancers := remove
		remove = func() { balancers(); c.removeRoutes(ctx) }
		add("route_list", func(p *plan) outcome { _, o := c.routes(ctx, p); return o })
		add("route_create", func(p *plan) outcome { return c.routeCreate(ctx, p, "hint", c.wantedRoutes(ctx)[0]) })
	}
	if c.slot.Supports(abi.OpVolumeLabels) && len(c.Cases.Volumes) > 0 {
		add("volume_labels", func(p *plan) outcome {
			_, o := c.volumeLabels(ctx, p, &c.Cases.Volumes[0].PersistentVolume)
			return o
		})
	}
	return all, remove
}

func (c *check) balancerSubjects(ctx context.Context) (all []subject, remove func()) {
	s, nodes := c.service(), c.backends(ctx)
	absent := s.DeepCopy()
	absent.Name, absent.UID = "conformance-fails", uidOf("fails")
	if _, _, ok := c.fresh(ctx, s, nodes); !ok {
		return nil, func() {}
	}
	whole := func() { c.ensured(ctx, patient(), s, nodes) }
	some := nodes[1:]
	return []subject{
			{name: "lb_get", ask: func(p *plan) outcome { _, o := c.lbGet(ctx, p, s); return o }},
			{name: "lb_ensure (new)", ask: func(p *plan) outcome { _, o := c.lbEnsure(ctx, p, absent, nodes); return o }},
			{name: "lb_ensure", ask: func(p *plan) outcome { _, o := c.lbEnsure(ctx, p, s, some); return o }, prepare: whole},
			{name: "lb_update", ask: func(p *plan) outcome { return c.lbUpdate(ctx, p, s, some) }, prepare: whole},
			{name: "lb_delete", ask: func(p *plan) outcome { return c.lbDelete(ctx, p, s) }, prepare: whole},
		}, func() {
			c.remove(ctx, s)
			c.remove(ctx, absent)
		}
}

// eachSubject runs every op with each fault from its first request on, then
// from its second, and so on. Judge gets the first faulty position.
func (c *check) eachSubject(ctx context.Context, all []*fault, judge func(name string, f *fault, at int, o outcome)) {
	subjects, remove := c.subjects(ctx)
	defer remove()
	runs := 0
	for _, s := range subjects {
		for _, f := range all {
			for at := 1; at <= c.MaxPositions && c.goesOn(ctx); at++ {
				p := &plan{fault: f, at: at, onwards: true}
				o, fired := c.meet(ctx, s, p)
				if !fired {
					break
				}
				runs++
				judge(s.name+" with "+p.String(), f, at, o)
			}
		}
	}
	c.tried(runs, "times")
}

func (c *check) meet(ctx context.Context, s subject, p *plan) (o outcome, fired bool) {
	if s.prepare != nil {
		s.prepare()
	}
	c.restart(ctx)
	c.trying(p)
	c.server.served.Store(0)
	o = s.ask(p)
	return o, p.fired
}

func checkFaultError(ctx context.Context, c *check) {
	all := slices.DeleteFunc(faults(), func(f *fault) bool { return f.hangs }) // tested by another clause
	c.eachSubject(ctx, all, func(name string, f *fault, at int, o outcome) {
		switch {
		case o.err == nil && at > 1: // it did without the request; another clause judges that
		case o.err == nil:
			c.failf(o, "%s: ok, although the cloud answered nothing else: answer an error", name)
		case strings.TrimSpace(o.err.Error()) == "" || o.err.Error() == o.code().String():
			c.failf(o, "%s: %s without a message", name, o.code())
		case !names(o, f):
			c.failf(o, "%s: the message does not name the status: %s", name, o)
		}
	})
}

// names reports whether an error names the cloud's answer: its status, or an
// equivalent code.
func names(o outcome, f *fault) bool {
	switch code := o.code(); {
	case f.status == 0, strings.Contains(o.err.Error(), strconv.Itoa(f.status)), isStore(o):
		return true
	case f.status == http.StatusUnauthorized:
		return code == abi.CodeUnauthenticated
	case f.status == http.StatusTooManyRequests, f.status == http.StatusRequestEntityTooLarge, f.status == http.StatusServiceUnavailable:
		return code == abi.CodeThrottled || code == abi.CodeRetryAfter
	}
	return false
}

// isStore reports whether the failed call was a store call; those have no
// status.
func isStore(o outcome) bool {
	return len(o.trace) > 0 && strings.HasPrefix(o.trace[len(o.trace)-1].what, "store ")
}

func checkFault401(ctx context.Context, c *check) {
	only := slices.DeleteFunc(faults(), func(f *fault) bool { return f.status != http.StatusUnauthorized })
	c.eachSubject(ctx, only, func(name string, _ *fault, at int, o outcome) {
		if o.code() != abi.CodeUnauthenticated && (at == 1 || o.err != nil) {
			c.failf(o, "%s: %s, want unauthenticated", name, o)
		}
	})
}

func checkThrottled(ctx context.Context, c *check) {
	plain := 0
	c.eachSubject(ctx, []*fault{throttling()}, func(name string, _ *fault, at int, o outcome) {
		switch code := o.code(); {
		case o.err == nil && at > 1:
		case o.err == nil:
			c.failf(o, "%s: ok", name)
		case code != abi.CodeThrottled && code != abi.CodeRetryAfter:
			plain++
		case o.retryAfter() < retryAfter:
			c.failf(o, "%s: %s, retry after %v; the cloud asked for %v", name, code, o.retryAfter(), retryAfter)
		}
		if n := c.server.served.Load(); n > int64(c.MaxThrottled) {
			c.failf(o, "%s: %d requests, at most %d are good manners", name, n, c.MaxThrottled)
		}
	})
	if plain > 0 {
		c.note += ", " + strconv.Itoa(plain) + " of them errors without a delay"
	}
}

func checkHang(ctx context.Context, c *check) {
	only := slices.DeleteFunc(faults(), func(f *fault) bool { return !f.hangs })
	c.eachSubject(ctx, only, func(name string, _ *fault, at int, o outcome) {
		if o.err == nil && at == 1 {
			c.failf(o, "%s: ok", name)
		}
		if o.took > c.FaultTimeout+grace {
			c.failf(o, "%s: it took %v, the deadline was %v", name, o.took, c.FaultTimeout)
		}
	})
}
