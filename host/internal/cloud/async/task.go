package async

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
)

// task is a running op.
type task struct {
	*call
	started time.Time
	timeout time.Duration // OpTimeout at its start
	cancel  context.CancelFunc
	// before is the record of the op and its object at the start, resets the number of resets
	// then.
	before record
	resets int

	// finished is closed when the op has finished, after reply was set.
	finished chan struct{}
	reply    *reply

	// The following are guarded by Invoker.mu. settled is closed when the op has finished or its
	// caller has left; it is nil until somebody else waits for that.
	settled  chan struct{}
	behind   bool  // counted in the background
	detached bool  // its caller has left
	ending   error // why the Invoker ended it, or nil
}

// end cancels the op, which returns a moment later.
func (t *task) end(cause error) {
	t.ending = cmp.Or(t.ending, cause)
	t.cancel()
}

// settle releases the calls that wait for the caller.
func (t *task) settle() {
	if t.settled != nil {
		close(t.settled)
	}
}

// settles is closed when the op has finished, or its caller has left it.
func (t *task) settles() <-chan struct{} {
	if t.settled == nil {
		t.settled = make(chan struct{})
	}
	return t.settled
}

// ended returns the reply of a finished task, or nil. A nil task never ends.
func (t *task) ended() *reply {
	if t == nil {
		return nil
	}
	select {
	case <-t.finished:
		return t.reply
	default:
		return nil
	}
}

// start runs the op of a call that has a permit.
func (i *Invoker) start(ctx context.Context, c *call, o *object) *task {
	t := &task{
		call: c, started: time.Now(), timeout: i.options.OpTimeout, before: o.known(c.op).record, resets: i.resets,
		finished: make(chan struct{}),
	}
	c.permit = false // the task owns it now
	i.supersede(o, c.op)
	o.running = t
	i.tasks[t] = struct{}{}
	if t.before.slow || i.takesLong(t.op) { // its place in the background is reserved
		i.toBackground(t)
	}
	// The op keeps the context's values, not its end.
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.timeout+lateGrace)
	t.cancel = cancel
	go i.run(own, t)
	return t
}

func (i *Invoker) run(ctx context.Context, t *task) {
	defer t.cancel()
	r := &reply{err: i.contained(ctx, t)}
	if r.err == nil {
		r.data, r.err = wire.Marshal(t.resp)
	}
	i.finish(t, r)
}

// contained runs the op and turns a panic into an error: a guest that triggers a panic of
// the host fails alone.
func (i *Invoker) contained(ctx context.Context, t *task) (err error) {
	defer func() {
		// Invariant M24 (host/SECURITY.md): a panic of an op is its error.
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in the manager: %v", p)
			klog.FromContext(ctx).Error(err, "An op failed", "op", t.about(), "stack", string(debug.Stack()))
		}
	}()
	if t.fresh {
		return i.next.InvokeFresh(ctx, t.op, t.req, t.resp)
	}
	return i.next.Invoke(ctx, t.op, t.req, t.resp)
}

// timer fires after d. It is returned to the pool after the wait.
func (i *Invoker) timer(d time.Duration) *time.Timer {
	t, ok := i.timers.Get().(*time.Timer)
	if !ok {
		return time.NewTimer(d)
	}
	t.Reset(d)
	return t
}

// await waits for a task that this caller started until its patience ends, then leaves it.
func (i *Invoker) await(ctx context.Context, t *task, left time.Duration) *reply {
	patience := i.timer(left)
	defer func() {
		patience.Stop()
		i.timers.Put(patience)
	}()
	for {
		select {
		case <-t.finished:
			return t.reply
		case <-patience.C:
			r, left := i.giveUp(t, false)
			if r != nil {
				return r
			}
			patience.Reset(left)
		case <-ctx.Done():
			r, _ := i.giveUp(t, true)
			return r
		}
	}
}

// giveUp leaves a task whose caller is out of patience, or must leave; else it returns how
// much longer the caller waits: other ops may have shown that the op takes longer. Check and
// reservation are one step: a free place in the background is taken at once.
func (i *Invoker) giveUp(t *task, must bool) (r *reply, left time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if t.reply != nil { // it has just ended
		return t.reply, 0
	}
	if left = i.left(t); left > 0 && !must {
		return nil, min(left, lookPeriod)
	}
	if !must && i.isReplaced(t) {
		t.end(errReplaced) // its caller asks the new generation
		return nil, t.timeout + lateGrace
	}
	if !must && t.stays() && (t.behind || i.rooms.roomBehind(t.group())) {
		if !t.behind {
			i.toBackground(t)
		}
		return nil, t.timeout + lateGrace
	}
	// Invariant O1 (host/SECURITY.md): the caller leaves, and the op goes on.
	return i.detach(t), 0
}

// left is how much longer the caller of a task waits.
func (i *Invoker) left(t *task) time.Duration {
	took := time.Since(t.started)
	left := i.patienceFor(t) - took
	switch {
	case i.isReplaced(t):
		return min(left, i.options.Foreground-took)
	case left > 0 || t.behind || i.rooms.roomBehind(t.group()):
		return left
	case t.patient && len(i.rooms.queue) == 0: // no call needs the instance
		return roomPoll
	case t.patient: // its ordinary time is over
		return left
	}
	return min(i.endurance(t.op)-took, roomPoll)
}

// detach moves a task to the background, or ends it if that is full.
func (i *Invoker) detach(t *task) *reply {
	t.detached = true
	t.settle()
	if t.resets != i.resets && t.op.Reads() {
		t.end(errReplaced)
		return i.inProgress(t, t.call)
	}
	s := i.objects[t.key].state(t.op)
	s.slow, s.at = true, time.Now()
	if !t.behind && !i.rooms.roomBehind(t.group()) {
		t.end(errCrowded)
		defer i.options.Observer.Busy(t.op)
		return busyReply(fmt.Sprintf("it was ended after %v, as %d others continue in the background",
			time.Since(t.started).Round(time.Millisecond), i.rooms.background))
	}
	if !t.behind {
		i.toBackground(t)
	}
	return i.inProgress(t, t.call)
}

func (i *Invoker) toBackground(t *task) {
	t.behind = true
	i.rooms.moved(t.group(), 1)
	i.options.Observer.Background(i.rooms.background)
}

// postponed is inProgress for a caller that has just left.
func (i *Invoker) postponed(t *task, c *call) *reply {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.inProgress(t, c)
}

// inProgress is the reply to a call whose op goes on. The op's name stands before the text.
func (i *Invoker) inProgress(t *task, c *call) *reply {
	took := time.Since(t.started)
	state, before, delay := "in progress for", "", i.retryDelay(t.op, took)
	if t.ending != nil {
		state, delay = "being ended after", minRetry
	}
	if t.op != c.op {
		state = t.op.String() + " is " + state
	}
	if t.before.failures > 0 && t.resets == i.resets {
		before = fmt.Sprintf("; it failed %d times in a row before, the last time with: %v", t.before.failures, t.before.last)
	}
	return retryAfter(delay, "%s %v%s", state, took.Round(time.Millisecond), before)
}

// finish is the end of every task.
func (i *Invoker) finish(t *task, r *reply) {
	i.mu.Lock()
	defer i.mu.Unlock()
	took := time.Since(t.started)
	delete(i.tasks, t)
	o := i.objects[t.key]
	o.running = nil
	if t.op == abi.OpLoadBalancerDelete && r.err == nil {
		o.deleted = time.Now()
	}
	r.replaced = r.err != nil && errors.Is(t.ending, errReplaced)
	t.reply = r
	close(t.finished)
	if !t.detached {
		t.settle()
	}
	if t.behind {
		i.rooms.moved(t.group(), -1)
		i.options.Observer.Background(i.rooms.background)
	}
	i.rooms.release(t.call)
	if t.ending == nil || r.err == nil { // unless the Invoker ended it, for lack of room or at shutdown
		if t.op == abi.OpRouteList && r.err == nil {
			i.listed = t.started
		}
		i.judge(t, o, r.err, took)
		if t.detached && t.resets == i.resets {
			i.keep(t, o)
		}
	}
	if t.detached {
		i.options.Observer.BackgroundDone(t.op, took, r.err)
	}
	i.tidy(t.key, o)
}

// judge updates the record after a task. A task of the previous generation does not count
// against the new one.
func (i *Invoker) judge(t *task, o *object, err error, took time.Duration) {
	_, answered := errors.AsType[*abi.Error](err)
	own := t.resets == i.resets
	if err == nil || answered {
		i.learn(t.op, took)
		if own {
			o.went(t.op, record{slow: i.isSlow(t, took, true), at: time.Now()})
		}
		return
	}
	s := o.state(t.op)
	if own {
		s.fail(time.Now(), i.isSlow(t, took, false), err)
	}
	switch {
	case s.failures >= tolerated:
		i.options.Observer.BackedOff(t.object, t.op, s.failures, time.Until(s.until), err)
	case t.detached: // its caller may collect the result minutes later, or never
		i.options.Observer.Unanswered(t.object, t.op, took, err)
	}
}
