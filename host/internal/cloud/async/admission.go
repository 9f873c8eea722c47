package async

import (
	"slices"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// maxWaiting bounds the calls that wait for a permit.
const maxWaiting = 1000

// groupConfirmations are questions to a fresh instance: few, and a Node that is
// gone stays until they are answered. The other groups are the ABI's.
const groupConfirmations abi.Group = 255

// admission hands out permits to run an op, one for each instance, so that
// nobody waits for an instance with the clock of its op running. It is guarded
// by Invoker.mu.
type admission struct {
	instances     func() int
	maxBackground int

	running map[abi.Group]int
	total   int
	// background counts the permits of ops that no caller waits for.
	background int
	// behind counts them for each group.
	behind map[abi.Group]int
	queue  []*waiter
}

// waiter is a place in the queue.
type waiter struct {
	group   abi.Group
	granted bool
	ready   chan struct{} // closed when granted
}

func (a *admission) capacity() int { return max(a.instances(), 1) }

// roomBehind reports whether one more op may go to the background.
func (a *admission) roomBehind(g abi.Group) bool {
	// Invariant O6 (host/SECURITY.md): the background never has more than its share of the
	// instances.
	return a.background < a.limit() && a.behind[g] < a.share(g)
}

// share is how much of the background a group may have. Questions about Nodes
// leave half of it to others: they come back every few seconds, and a Service
// would find none. Nor would the second question about a Node that is gone, so
// these have a share of their own.
func (a *admission) share(g abi.Group) int {
	switch g {
	case abi.GroupInstances:
		return max(a.limit()/2, 1)
	case groupConfirmations:
		return max(a.limit()/4, 1)
	}
	return a.limit()
}

// moved counts an op that goes to the background, or ends there.
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

// hopeless reports that the background holds every instance.
func (a *admission) hopeless() bool {
	// Invariant O6 (host/SECURITY.md): the queue is bounded.
	return a.background >= a.capacity() || len(a.queue) >= maxWaiting
}

// enter gives the call a permit, or a place in the queue.
func (a *admission) enter(c *call) {
	w := &waiter{group: c.group(), ready: make(chan struct{})}
	a.queue = append(a.queue, w)
	c.place = w
	a.grant()
	a.settle(c)
}

// settle turns a granted place into a permit.
func (a *admission) settle(c *call) {
	if c.place != nil && c.place.granted {
		c.permit, c.place = true, nil
	}
}

// leave gives back what the call did not use.
func (a *admission) leave(c *call) {
	a.settle(c)
	if c.permit {
		c.permit = false
		a.release(c.group())
	}
	if c.place != nil {
		a.queue = slices.DeleteFunc(a.queue, func(w *waiter) bool { return w == c.place })
		c.place = nil
	}
}

func (a *admission) release(g abi.Group) {
	a.total--
	a.running[g]--
	a.grant()
}

// grant gives free permits to waiting ops: first to the group with the fewest
// running ops, so that many routes do not delay one Service, and within a group
// in order of arrival.
func (a *admission) grant() {
	for len(a.queue) > 0 && a.total < a.capacity() {
		best := 0
		for n, w := range a.queue {
			if a.running[w.group] < a.running[a.queue[best].group] {
				best = n
			}
		}
		w := a.queue[best]
		a.queue = slices.Delete(a.queue, best, best+1)
		if a.running == nil {
			a.running = map[abi.Group]int{}
		}
		a.running[w.group]++
		a.total++
		w.granted = true
		close(w.ready)
	}
}
