package async

import (
	"slices"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// maxWaiting bounds the calls that wait for a permit.
const maxWaiting = 1000

// Groups beside the ABI's. Confirmations are questions to a fresh instance: few, and a
// missing Node stays until they are answered. Updates come for all Services at once, when a
// Node comes or goes; a Service that waits for its address must not wait for them.
const (
	groupConfirmations abi.Group = 255 - iota
	groupUpdates
)

// admission hands out permits to run an op, one for each instance, so that no op waits for
// an instance while its time runs. Invoker.mu guards it.
type admission struct {
	instances     func() int
	maxBackground int
	// isLong reports whether the caller waits for the end of an op that may take long.
	isLong func(*call) bool

	running map[abi.Group]int
	total   int
	// long counts the permits of long calls.
	long int
	// turns is the turn at which each group last got a permit.
	turns map[abi.Group]int
	turn  int
	// background counts the ops whose callers have left.
	background int
	// behind counts the ops in the background by group.
	behind map[abi.Group]int
	queue  []*call
}

func (a *admission) capacity() int { return max(a.instances(), 1) }

// roomBehind reports whether one more op of the group fits in the background.
func (a *admission) roomBehind(g abi.Group) bool {
	// Invariant O6 (host/SECURITY.md): the background never has more than its share of the
	// instances.
	return a.background < a.limit() && a.behind[g] < a.share(g)
}

// share is how much of the background a group may have. Questions about Nodes leave half of
// it to other groups: they return every few seconds, and would crowd out a Service. They
// would crowd out confirmations about missing Nodes, too, so these have a share of their
// own.
func (a *admission) share(g abi.Group) int {
	switch g {
	case abi.GroupInstances:
		return max(a.limit()/2, 1)
	case groupConfirmations:
		return max(a.limit()/4, 1)
	}
	return a.limit()
}

// moved counts an op that enters or leaves the background.
func (a *admission) moved(g abi.Group, n int) {
	if a.behind == nil {
		a.behind = map[abi.Group]int{}
	}
	a.background += n
	a.behind[g] += n
}

func (a *admission) limit() int {
	if a.maxBackground > 0 {
		return a.maxBackground
	}
	return max(a.capacity()/2, 1)
}

// hopeless reports whether the queue is full, or the background holds every instance and the
// caller is not patient.
func (a *admission) hopeless(c *call) bool {
	// Invariant O6 (host/SECURITY.md): the queue is bounded.
	return len(a.queue) >= maxWaiting || !c.patient && a.background >= a.capacity()
}

// enter gives the call a permit, or a place in the queue.
func (a *admission) enter(c *call) {
	a.queue = append(a.queue, c)
	a.grant()
	if !c.permit {
		c.turn = make(chan struct{})
	}
}

// leave returns an unused permit or place.
func (a *admission) leave(c *call) {
	if c.permit {
		c.permit = false
		a.release(c)
	}
	if c.turn != nil {
		a.queue = slices.DeleteFunc(a.queue, func(w *call) bool { return w == c })
		c.turn = nil
	}
}

func (a *admission) release(c *call) {
	a.total--
	a.running[c.group()]--
	if c.long {
		a.long--
	}
	a.grant()
}

// grant gives free permits to waiting ops.
func (a *admission) grant() {
	for a.total < a.capacity() {
		n := a.first()
		if n < 0 {
			return
		}
		w := a.queue[n]
		a.queue = slices.Delete(a.queue, n, n+1)
		if a.running == nil {
			a.running, a.turns = map[abi.Group]int{}, map[abi.Group]int{}
		}
		a.running[w.group()]++
		a.total++
		if w.long = a.isLong(w); w.long {
			a.long++
		}
		a.turn++
		a.turns[w.group()] = a.turn
		w.permit = true
		if w.turn != nil {
			close(w.turn)
			w.turn = nil
		}
	}
}

// first returns the index of the next call in the queue, or -1: a call of the group with the
// fewest running ops, so that many routes do not delay one Service; of several groups, the
// one that has waited longest for a turn; within a group, in order of arrival.
func (a *admission) first() int {
	best := -1
	for n, w := range a.queue {
		// Invariant O6 (host/SECURITY.md): long ops of patient callers leave instances to loops with
		// short deadlines.
		if a.long >= a.longest() && a.isLong(w) || w.group() == groupUpdates && a.running[groupUpdates] >= a.updates(w) {
			continue
		}
		if best < 0 || a.before(w.group(), a.queue[best].group()) {
			best = n
		}
	}
	return best
}

// updates is how many instances updates may have: half, and a quarter if an update takes
// long, since a Service would wait as long for its address.
func (a *admission) updates(c *call) int {
	if a.isLong(c) {
		return max(a.limit()/2, 1)
	}
	return a.limit()
}

func (a *admission) before(g, other abi.Group) bool {
	if a.running[g] != a.running[other] {
		return a.running[g] < a.running[other]
	}
	return a.turns[g] < a.turns[other]
}

// longest is how many instances long ops may have: all but a quarter, at least one on either
// side.
func (a *admission) longest() int { return max(a.capacity()-max(a.capacity()/4, 1), 1) }
