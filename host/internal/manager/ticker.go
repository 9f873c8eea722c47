package manager

import (
	"context"
	"errors"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// ticker runs the op tick of one provider, in the manager that leads.
type ticker struct {
	invoker opcontext.Invoker
	// period is that of the generation that serves, 0 for never; changed is closed
	// when another one serves.
	period  func() time.Duration
	changed func() <-chan struct{}
	// ended is told how each one ended, nil when it is done.
	ended       func(error)
	clusterName string
}

// run ticks until the context ends. A change may bring another period; it does not
// begin a new one, or Secrets that are rotated more often would end each of them
// before its tick.
func (t *ticker) run(ctx context.Context) {
	last := time.Now()
	for ctx.Err() == nil {
		changed, period := t.changed(), t.period()
		if period > 0 {
			last = t.wait(ctx, changed, period, last)
			continue
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// wait ticks at that period until something changes, and returns when it ticked
// last.
func (t *ticker) wait(ctx context.Context, changed <-chan struct{}, period time.Duration, last time.Time) time.Time {
	// What serves only now has some time before its first one.
	timer := time.NewTimer(max(period-time.Since(last), min(period, leastTickPeriod)))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return last
		case <-changed:
			return last
		case <-timer.C:
		}
		next := period
		if delay := t.tick(ctx, changed); delay > 0 {
			next = min(period, max(delay, leastTickPeriod))
		}
		last = time.Now().Add(next - period)
		timer.Reset(next)
	}
}

const leastTickPeriod = abi.LeastTickPeriodMs * time.Millisecond

// tick runs the op once. One that goes on in the background has a delay, after
// which its end is asked for. One during which another generation came to serve tells
// nothing of that.
func (t *ticker) tick(ctx context.Context, changed <-chan struct{}) (delay time.Duration) {
	var answer abi.Done
	// Invariant O10 (host/SECURITY.md): never two at a time.
	ctx = opcontext.NewContext(ctx, opcontext.Op{Serial: "Tick"})
	err := t.invoker.Invoke(ctx, abi.OpTick, &abi.TickRequest{ClusterName: t.clusterName}, &answer)
	var e *abi.Error
	switch {
	case ctx.Err() != nil:
		return 0
	case errors.As(err, &e) && e.Code == abi.CodeRetryAfter:
		return max(e.RetryAfter, time.Second)
	case err == nil && !answer.GetDone():
		err = errors.New("tick: the guest did not say that it is done")
	}
	select {
	case <-changed:
	default:
		t.ended(err)
	}
	return 0
}

// tick begins to tick.
func (m *managed) tick(clusterName string) {
	t := &ticker{invoker: m.invoker, period: m.slot.TickPeriod, changed: m.slot.Changed, ended: m.ticked, clusterName: clusterName}
	m.working.Go("the ticks", func() { t.run(m.work) })
}

// ticked tells how an op tick ended: each one is in the metrics, its outcome in
// the status, and failures in the log.
func (m *managed) ticked(err error) {
	message := ""
	if err != nil {
		m.logger.Error(err, "The op tick failed")
		message = text.Line(err.Error(), 512)
	}
	m.reporter.status.ticked(message)
}
