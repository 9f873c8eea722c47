package async

import (
	"slices"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Counts are the current numbers of ops and objects.
type Counts struct {
	// Running counts all ops, Background those without a waiting caller.
	Running, Background int
	// BackedOff counts the objects in a back-off.
	BackedOff int
}

// Counts returns the current counts. It scans all known objects.
func (i *Invoker) Counts() (c Counts) {
	i.mu.Lock()
	defer i.mu.Unlock()
	c.Running, c.Background = len(i.tasks), i.rooms.background
	now := time.Now()
	for _, o := range i.objects {
		for _, s := range o.ops {
			if s.until.After(now) {
				c.BackedOff++
				break
			}
		}
	}
	return c
}

// Running is an op in progress.
type Running struct {
	Op      abi.Op
	Started time.Time
	// Timeout is the deadline of the op, counted from Started; the op's own deadline may be
	// shorter.
	Timeout time.Duration
}

// Failing is an op whose last calls had no answer.
type Failing struct {
	Op abi.Op
	// Failures counts those calls in a row; Last is the last error, At its time.
	Failures int
	Last     error
	At       time.Time
	// Until is the end of the back-off; a past time means none.
	Until time.Time
}

// Look returns the running op of an object and the op that failed last, among the ops of a
// group; nil for none. The name is NAMESPACE/NAME of a Service, CIDR of NODE of a route,
// else NAME.
func (i *Invoker) Look(group abi.Group, name string) (running *Running, failing *Failing) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, o := range i.objectsOf(group, name) {
		if t := o.running; t != nil && t.op.Group() == group {
			running = &Running{Op: t.op, Started: t.started, Timeout: t.timeout}
		}
		for op, s := range o.ops {
			if s.failures > 0 && op.Group() == group && (failing == nil || s.at.After(failing.At)) {
				failing = &Failing{Op: op, Failures: s.failures, Last: s.last, At: s.at, Until: s.until}
			}
		}
	}
	return running, failing
}

// Routes returns the destinations of a Node's routes with an op that runs, or whose deletion
// has failed, old routes included, in order. It looks through all objects.
func (i *Invoker) Routes(node string) (cidrs []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for key, o := range i.objects {
		route, isRoute := strings.CutPrefix(key, "Route ")
		deletion := o.ops[abi.OpRouteDelete]
		if cidr, of := strings.CutSuffix(route, " of "+node); isRoute && of && (o.running != nil || deletion != nil && deletion.failures > 0) {
			cidrs = append(cidrs, cidr)
		}
	}
	slices.Sort(cidrs)
	return cidrs
}

// objectsOf returns the objects whose keys name this one (newCall).
func (i *Invoker) objectsOf(group abi.Group, name string) (all []*object) {
	add := func(key string) {
		if o := i.objects[key]; o != nil {
			all = append(all, o)
		}
	}
	switch group {
	case abi.GroupRoutes:
		add("Route " + name)
		return all
	case abi.GroupLoadBalancers:
		add("Service " + name)
	}
	for _, op := range group.Ops() {
		add(op.String() + " " + name)
	}
	return all
}
