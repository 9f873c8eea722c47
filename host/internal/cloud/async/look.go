package async

import (
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Counts are of ops and objects now.
type Counts struct {
	// Running ops; Background are those of them that no caller waits for.
	Running, Background int
	// BackedOff are objects about which the guest is not asked for a while.
	BackedOff int
}

// Counts returns what is under way. It looks at all objects of which something
// is known.
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

// Running is an op that goes on.
type Running struct {
	Op      abi.Op
	Started time.Time
	// Timeout is when the guest is ended, counted from Started; it may be sooner, by the
	// op's own time.
	Timeout time.Duration
}

// Failing is an op that has had no answer.
type Failing struct {
	Op abi.Op
	// Failures are how many there were in a row; Last is how the last one ended, At when.
	Failures int
	Last     error
	At       time.Time
	// Until is when the guest is asked again; it is past when nothing holds that back.
	Until time.Time
}

// Look returns what is known of one object and the ops of a group: the op that
// runs, and the one that failed last; nil where there is none. The name is
// NAMESPACE/NAME of a Service, and else NAME; that of a route is its Node's.
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

// objectsOf returns those whose keys name the object (newCall).
func (i *Invoker) objectsOf(group abi.Group, name string) (all []*object) {
	add := func(key string) {
		if o := i.objects[key]; o != nil {
			all = append(all, o)
		}
	}
	switch group {
	case abi.GroupRoutes: // their keys have the destination, too
		for key, o := range i.objects {
			if strings.HasPrefix(key, "Route ") && strings.HasSuffix(key, " of "+name) {
				all = append(all, o)
			}
		}
		return all
	case abi.GroupLoadBalancers:
		add("Service " + name)
	}
	for _, op := range group.Ops() {
		add(op.String() + " " + name)
	}
	return all
}
