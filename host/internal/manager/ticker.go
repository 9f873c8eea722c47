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

// run ticks until the context ends. A change begins a new period.
func (t *ticker) run(ctx context.Context) {
	for ctx.Err() == nil {
		changed, period := t.changed(), t.period()
		if period > 0 {
			t.wait(ctx, changed, period)
			continue
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// wait ticks at that period until something changes.
func (t *ticker) wait(ctx context.Context, changed <-chan struct{}, period time.Duration) {
	timer := time.NewTimer(period)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			return
		case <-timer.C:
		}
		next := period
		if delay := t.tick(ctx); delay > 0 {
			next = min(period, max(delay, abi.LeastTickPeriodMs*time.Millisecond))
		}
		timer.Reset(next)
	}
}

// tick runs the op once. One that goes on in the background has a delay, after
// which its end is asked for.
func (t *ticker) tick(ctx context.Context) (delay time.Duration) {
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
	t.ended(err)
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
