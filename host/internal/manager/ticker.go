package manager

import (
	"context"
	"errors"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
)

// ticker runs the op tick of one provider, in the leading manager.
type ticker struct {
	invoker opcontext.Invoker
	// period is the serving generation's, 0 for never; changed is closed when
	// another generation serves.
	period  func() time.Duration
	changed func() <-chan struct{}
	// ended receives the result of each tick, nil for success.
	ended       func(error)
	clusterName string
}

// run ticks until the context ends. A change may bring another period; it does
// not restart the current one, or frequent rotations of Secrets would end every
// period before its tick.
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

// wait ticks at that period until a change, and returns the time of the last
// tick.
func (t *ticker) wait(ctx context.Context, changed <-chan struct{}, period time.Duration, last time.Time) time.Time {
	// A new generation has some time before its first tick.
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

// tick runs the op once. A tick that continues in the background returns the
// delay until the next query of its end. A tick during a takeover reports no
// result.
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
	case err == nil && !answer.Done:
		err = errors.New("tick: the guest did not say that it is done")
	}
	select {
	case <-changed:
	default:
		t.ended(err)
	}
	return 0
}
