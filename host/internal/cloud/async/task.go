package async

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// task is one op that runs.
type task struct {
	*call
	started time.Time
	timeout time.Duration // OpTimeout of then
	cancel  context.CancelCauseFunc
	// before is what was known of the op and its object, after so many resets.
	before record
	resets int

	// settled is closed when nobody needs to wait any more: the op has
	// finished, or its caller has left it. finished is closed when it has
	// finished, after reply was set.
	settled, finished chan struct{}
	reply             *reply

	// The following are guarded by Invoker.mu.
	behind   bool // counts in the background
	detached bool // its caller has left it
	ending   bool // it was ended for lack of room, or since another generation serves
}

// end ends the op, which takes a moment.
func (t *task) end(cause error) {
	t.ending = true
	t.cancel(cause)
}

// ended returns the reply of a task that has ended, or nil. A nil task never
// ends.
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
	s := o.state(c.op)
	t := &task{
		call: c, started: time.Now(), timeout: i.options.OpTimeout, before: s.record, resets: i.resets,
		settled: make(chan struct{}), finished: make(chan struct{}),
	}
	c.permit = false // it is the task's now
	i.supersede(o, c.op)
	o.running = t
	i.tasks[t] = struct{}{}
	if t.before.slow || i.takesLong(t.op) { // its place in the background was made sure of
		i.toBackground(t)
	}
	// What the context carries goes along, its end does not.
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	t.cancel = cancel
	go i.run(own, t)
	return t
}

func (i *Invoker) run(ctx context.Context, t *task) {
	defer t.cancel(nil)
	defer context.AfterFunc(i.base, func() { t.cancel(context.Cause(i.base)) })()
	bounded, cancel := context.WithTimeout(ctx, t.timeout+lateGrace)
	defer cancel()
	err := t.contained(bounded)
	r := &reply{err: err}
	if err == nil {
		r.data, r.err = encode(t.resp)
	}
	i.finish(t, r, context.Cause(ctx))
}

// contained runs the op and makes an error of a panic: a guest that finds one
// in the host fails with it alone.
func (t *task) contained(ctx context.Context) (err error) {
	defer func() {
		// Invariant M24 (host/SECURITY.md): a panic of an op is its error.
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in the manager: %v", p)
			klog.FromContext(ctx).Error(err, "An op failed", "op", t.about(), "stack", string(debug.Stack()))
		}
	}()
	return t.run(ctx, t.op, t.req, t.resp)
}

// await waits for a task that this caller started, as long as its patience
// lasts, and leaves it then.
func (i *Invoker) await(ctx context.Context, t *task) *reply {
	patience := time.NewTimer(0)
	defer patience.Stop()
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

// giveUp leaves a task whose caller waits no longer, or must go; else it returns
// how long the caller waits on: other ops may have taught us that this kind takes
// longer. It is one look: a place in the background that is seen free is taken.
func (i *Invoker) giveUp(t *task, must bool) (r *reply, left time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if left = i.left(t); left > 0 && !must {
		return nil, left
	}
	// Invariant O1 (host/SECURITY.md): the caller leaves, and the op goes on.
	return i.detach(t), 0
}

// left is how long the caller of a task waits on.
func (i *Invoker) left(t *task) time.Duration {
	took := time.Since(t.started)
	left := i.patienceFor(t) - took
	if left <= 0 && !t.behind && !i.rooms.roomBehind(t.group()) {
		return min(i.endurance(t.op)-took, roomPoll)
	}
	return left
}

// detach leaves a task to the background, or ends it when that is full.
func (i *Invoker) detach(t *task) *reply {
	if t.reply != nil {
		return t.reply
	}
	t.detached = true
	close(t.settled)
	if t.resets != i.resets && t.op.Reads() {
		t.end(errReplaced)
		return i.inProgress(t)
	}
	s := i.objects[t.key].state(t.op)
	s.slow, s.at = true, time.Now()
	if !t.behind && !i.rooms.roomBehind(t.group()) {
		t.end(errCrowded)
		defer i.options.Observer.Busy(t.op)
		return busyReply(fmt.Sprintf("%s was ended after %v, as %d others go on in the background",
			t.about(), time.Since(t.started).Round(time.Millisecond), i.rooms.background))
	}
	if !t.behind {
		i.toBackground(t)
	}
	return i.inProgress(t)
}

func (i *Invoker) toBackground(t *task) {
	t.behind = true
	i.rooms.moved(t.group(), 1)
	i.options.Observer.Background(i.rooms.background)
}

// inProgress is the reply while the op goes on without a caller.
func (i *Invoker) inProgress(t *task) *reply {
	took := time.Since(t.started)
	state, before, delay := "has been in progress for", "", i.retryDelay(t.op, took)
	if t.ending {
		state, delay = "is being ended after", minRetry
	}
	if t.before.failures > 0 && t.resets == i.resets {
		before = fmt.Sprintf("; it failed %d times in a row before, the last time with: %v", t.before.failures, t.before.last)
	}
	return retryAfter(delay, "%s %s %v%s", t.about(), state, took.Round(time.Millisecond), before)
}

// finish is the end of every task.
func (i *Invoker) finish(t *task, r *reply, cause error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	took := time.Since(t.started)
	delete(i.tasks, t)
	o := i.objects[t.key]
	o.running = nil
	t.reply = r
	close(t.finished)
	if !t.detached {
		close(t.settled)
	}
	if t.behind {
		i.rooms.moved(t.group(), -1)
		i.options.Observer.Background(i.rooms.background)
	}
	i.rooms.release(t.group())
	if cause == nil || r.err == nil { // not what we did to it, by lack of room or at shutdown
		if t.op == abi.OpRouteList && r.err == nil {
			i.listed = t.started
		}
		i.judge(t, o.state(t.op), r.err, took)
		if t.detached && (t.resets == i.resets || outlives(t.op, r)) {
			i.keep(t, o)
		}
	}
	if t.detached {
		i.options.Observer.BackgroundDone(t.op, took, r.err)
	}
	i.tidy(t.key, o)
}

// judge learns from how a task ended. The new generation is not answerable for one
// of the generation before.
func (i *Invoker) judge(t *task, s *opState, err error, took time.Duration) {
	var answer *abi.Error
	own := t.resets == i.resets
	if err == nil || errors.As(err, &answer) {
		i.learn(t.op, took)
		if own {
			s.record = record{slow: took > i.patience(t.op), at: time.Now()}
		}
		return
	}
	if own {
		s.fail(time.Now(), took > i.patience(t.op), err)
	}
	switch {
	case s.failures >= tolerated:
		i.options.Observer.BackedOff(t.object, t.op, s.failures, time.Until(s.until), err)
	case t.detached: // who asked may come back for it after minutes, or never
		i.options.Observer.Unanswered(t.object, t.op, took, err)
	}
}
