package async

import (
	"context"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// object is the state of one key; a key without state has none. Invoker.mu
// guards all of it.
type object struct {
	running *task
	ops     map[abi.Op]*opState
}

// opState is what is known of one op on an object.
type opState struct {
	record
	result *result
}

// record is how the op went.
type record struct {
	slow     bool // the last one was left by its caller
	failures int  // in a row
	until    time.Time
	last     error
	at       time.Time // of all this
}

const (
	// tolerated is how many failures in a row are without consequence.
	tolerated = 3
	// The first delay and the longest; each is twice the one before.
	minBackOff = 10 * time.Second
	maxBackOff = 5 * time.Minute
	// A record that old is forgotten: the object may be gone.
	memory = 30 * time.Minute
)

func (r *record) fail(now time.Time, slow bool, err error) {
	r.failures++
	r.slow = r.slow || slow
	r.last = err
	r.at, r.until = now, now
	if r.failures >= tolerated {
		doublings := min(r.failures-tolerated, 10) // 2^10 is far over the maximum
		r.until = now.Add(min(minBackOff<<doublings, maxBackOff))
	}
}

func (o *object) state(op abi.Op) *opState {
	s, ok := o.ops[op]
	if !ok {
		s = &opState{}
		o.ops[op] = s
	}
	return s
}

func (i *Invoker) object(key string) *object {
	o, ok := i.objects[key]
	if !ok {
		o = &object{ops: map[abi.Op]*opState{}}
		i.objects[key] = o
	}
	return o
}

// tidy forgets an object of which there is nothing to know.
func (i *Invoker) tidy(key string, o *object) {
	for op, s := range o.ops {
		if s.result == nil && !s.slow && s.failures == 0 {
			delete(o.ops, op)
		}
	}
	if o.running == nil && len(o.ops) == 0 {
		delete(i.objects, key)
	}
}

// step is what a call does next; one of reply, started and wait is set.
type step struct {
	reply   *reply
	started *task
	wait    <-chan struct{}
	joined  *task // its reply is this call's, too
}

// step decides under the lock.
func (i *Invoker) step(ctx context.Context, c *call) step {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	i.sweep(now)
	if i.ended {
		return step{reply: &reply{err: errShutdown}}
	}
	o := i.object(c.key)
	defer i.tidy(c.key, o)
	// Invariant O3 (host/SECURITY.md): of an object one op runs, also in the background.
	if t := o.running; t != nil {
		i.rooms.leave(c) // it cannot start yet, and others can
		return i.meet(t, c)
	}
	s := o.state(c.op)
	if r := i.take(s, c, now); r != nil {
		return step{reply: r}
	}
	// Invariant O4 (host/SECURITY.md): the guest is not asked before the back-off is over.
	if wait := s.until.Sub(now); wait > 0 {
		return step{reply: retryAfter(wait, "the provider is not asked: it failed %d times in a row, the last time with: %v", s.failures, s.last)}
	}
	if (s.slow || i.takesLong(c.op)) && !i.rooms.roomBehind(c.group()) || i.rooms.hopeless() {
		i.options.Observer.Busy(c.op)
		return step{reply: busyReply("ops that take long go on in the background and leave no room for another")}
	}
	return i.enter(ctx, c, o)
}

// meet is the step of a call whose object has an op that runs.
func (i *Invoker) meet(t *task, c *call) step {
	switch {
	case t.detached:
		return step{reply: i.inProgress(t)}
	case t.same(c) && t.resets == i.resets: // else the answer is of the generation before
		return step{wait: t.settled, joined: t}
	}
	return step{wait: t.settled}
}

func (i *Invoker) enter(ctx context.Context, c *call, o *object) step {
	i.rooms.settle(c)
	if !c.permit && c.place == nil {
		i.rooms.enter(c)
	}
	if !c.permit {
		return step{wait: c.place.ready}
	}
	return step{started: i.start(ctx, c, o)}
}

func (i *Invoker) leave(c *call) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rooms.leave(c)
}
