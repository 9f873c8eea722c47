package async

import (
	"context"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// object is the state of one key; keys without state have no object. Invoker.mu guards it.
type object struct {
	running *task
	ops     map[abi.Op]*opState
	// deleted is when its load balancer was last deleted.
	deleted time.Time
}

// opState is the state of one op on an object.
type opState struct {
	record
	result *result
}

// record is the history of an op.
type record struct {
	slow     bool // its caller left the last one
	failures int  // in a row
	until    time.Time
	last     error
	at       time.Time // of the last change
}

const (
	// tolerated is the number of failures in a row before the back-off.
	tolerated = 3
	// The bounds of the back-off; each delay doubles the one before.
	minBackOff = 10 * time.Second
	maxBackOff = 5 * time.Minute
	// memory is the age at which a record is forgotten: the object may be gone.
	memory = 30 * time.Minute
	// deletedMemory is longer than an update waits in the queue.
	deletedMemory = 10 * time.Minute
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
		if o.ops == nil {
			o.ops = map[abi.Op]*opState{}
		}
		o.ops[op] = s
	}
	return s
}

// known returns the state of an op, mostly the zero value.
func (o *object) known(op abi.Op) opState {
	if s, ok := o.ops[op]; ok {
		return *s
	}
	return opState{}
}

// went records the outcome of an op. An ordinary outcome leaves no record.
func (o *object) went(op abi.Op, r record) {
	if _, ok := o.ops[op]; ok || r.slow {
		o.state(op).record = r
	}
}

func (i *Invoker) object(key string) *object {
	o, ok := i.objects[key]
	if !ok {
		o = &object{}
		i.objects[key] = o
	}
	return o
}

// tidy forgets an object without state.
func (i *Invoker) tidy(key string, o *object) {
	for op, s := range o.ops {
		if s.result == nil && !s.slow && s.failures == 0 {
			delete(o.ops, op)
		}
	}
	if o.running == nil && len(o.ops) == 0 && time.Since(o.deleted) > deletedMemory {
		delete(i.objects, key)
	}
}

// step is the next step of a call; one of reply, started and wait is set.
type step struct {
	reply   *reply
	started *task
	wait    <-chan struct{}
	joined  *task            // its reply is this call's reply as well
	meets   *task            // the running op that the call waits for
	tooLong <-chan time.Time // ends the wait for meets
	// patience is how long the caller at first waits for the started op.
	patience time.Duration
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
	// Invariant O3 (host/SECURITY.md): one op runs per object, including the background.
	if t := o.running; t != nil {
		i.rooms.leave(c) // the permit goes to a call that can start
		return i.meet(t, c)
	}
	if c.op == abi.OpLoadBalancerUpdate && o.deleted.After(c.at) {
		// A guest whose update creates missing load balancers would create an orphan.
		return step{reply: retryAfter(minRetry, "the load balancer was deleted meanwhile")}
	}
	if r := i.take(o.ops[c.op], c, now); r != nil {
		return step{reply: r}
	}
	// Invariant O4 (host/SECURITY.md): the guest is not asked before the back-off is over.
	s := o.known(c.op)
	if wait := s.until.Sub(now); wait > 0 {
		return step{reply: retryAfter(wait, "the provider is not asked: it failed %d times in a row, the last time with: %v", s.failures, s.last)}
	}
	if (s.slow || i.takesLong(c.op)) && !i.rooms.roomBehind(c.group()) || i.rooms.hopeless(c) {
		i.options.Observer.Busy(c.op)
		return step{reply: busyReply("long ops in the background leave no room for another")}
	}
	return i.enter(ctx, c, o)
}

// meet is the step of a call whose object has a running op.
func (i *Invoker) meet(t *task, c *call) step {
	switch {
	case t.detached && !c.patient:
		return step{reply: i.inProgress(t, c)}
	case t.detached:
		return step{wait: t.finished, meets: t, tooLong: i.tooLong(c)}
	case t.same(c) && t.resets == i.resets: // otherwise the answer is the previous generation's
		return step{wait: t.settles(), joined: t, meets: t, tooLong: i.tooLong(c)}
	}
	return step{wait: t.settles(), meets: t, tooLong: i.tooLong(c)}
}

// tooLong returns the channel that ends the wait of a patient caller in a pass.
func (i *Invoker) tooLong(c *call) <-chan time.Time {
	if !c.patient || c.stays() {
		return nil
	}
	return time.After(i.ordinary(c.op))
}

func (i *Invoker) enter(ctx context.Context, c *call, o *object) step {
	if ctx.Err() != nil { // its turn may have come at the same time
		return step{reply: gone(ctx)}
	}
	if !c.permit && c.turn == nil {
		i.rooms.enter(c)
	}
	if !c.permit {
		return step{wait: c.turn}
	}
	t := i.start(ctx, c, o)
	return step{started: t, patience: min(i.left(t), lookPeriod)}
}

func (i *Invoker) leave(c *call) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rooms.leave(c)
}
