package rollout

import (
	"context"
	"fmt"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// Budget is how many ops of a new generation may fail while it is observed. It
// is exceeded by more than Failures that are also more than Percent of its ops,
// on top of the share that failed before: a cloud that is away is not the new
// generation's fault.
type Budget struct{ Failures, Percent int }

// exceeded compares what the new generation did with what was usual before.
func (b Budget) exceeded(now, before plugin.Tally) bool {
	share := b.Percent
	if before.Ops > 0 {
		share += before.Failures * 100 / before.Ops
	}
	return now.Failures > b.Failures && now.Failures*100 > share*now.Ops
}

// watch is the observation of what serves; zero when it is not observed.
type watch struct {
	failed <-chan struct{}
	over   <-chan time.Time
	before plugin.Tally
	since  plugin.Tally // of what serves, when it was swapped in, or when the time was prolonged
}

// from is a watch that counts what the generation does from now on.
func from(l *loaded) watch {
	select {
	case <-l.Failed(): // before
	default:
	}
	return watch{since: l.Tally()}
}

// observe begins the observation, or goes on with it. Where there is nothing to go back to, the time
// changes nothing: it is examined at once.
func (r *Rollout) observe() Action {
	period := r.options.Policy().ObservePeriod
	switch {
	case r.longer:
	case r.good() == nil:
		period = 0
	default:
		period -= min(period, max(0, r.options.Clock.Since(r.since))) // a clock may have been ahead
	}
	l := r.serving()
	if r.longer {
		r.watch = from(l)
	}
	r.watch.failed = l.Failed()
	if good := r.good(); good != nil {
		r.watch.before = good.Recent()
	}
	if period == 0 {
		return r.state.PeriodOver()
	}
	r.watch.over = r.options.Clock.After(period)
	return Nothing
}

// watched looks at the budget after a failure.
func (r *Rollout) watched() Action {
	l := r.serving()
	policy, tally := r.options.Policy(), l.Tally()
	tally.Ops -= r.watch.since.Ops
	tally.Failures -= r.watch.since.Failures
	if !policy.Budget.exceeded(tally, r.watch.before) {
		return Nothing
	}
	known := r.state.Reason == ReasonErrorBudget
	action := r.state.OverBudget(fmt.Sprintf("%d of %d ops failed, the last one: %v", tally.Failures, tally.Ops, l.LastFailure()), policy.Modes)
	if action == Nothing && !known {
		r.longer = true
		r.report(l.bundle, l)
	}
	return action
}

// examine asks what serves, beside Run, what nobody has asked it yet.
func (r *Rollout) examine(ctx context.Context) {
	l := r.serving()
	r.examiner.begin(ctx, func(ctx context.Context, _ func(Phase)) (func() Action, func(context.Context)) {
		evidence := r.options.Examiner.Examine(ctx, l.Generation)
		return func() Action { return r.examined(l, evidence) }, nothing
	})
}

// examined decides by what is known of what serves.
func (r *Rollout) examined(l *loaded, e Evidence) Action {
	if l != r.serving() {
		return Nothing
	}
	now := r.history.now()
	now.Questions += e.Questions
	r.count()
	r.state.Proof = now.proof()
	if e.Questions == 0 && now.Calls == 0 {
		r.state.Proof = e.Summary
	}
	if e.Answered == 0 && now.Calls > 0 && now.Failures == now.Calls {
		e.Unknown, e.Summary = true, "each call has failed so far: "+r.state.Proof
	}
	action := r.state.Examined(e, r.options.Policy().Modes)
	if r.longer = action == Observe; r.longer {
		r.report(l.bundle, l)
	}
	return action
}

// count takes over how often what serves was called.
func (r *Rollout) count() {
	if now, l := r.history.now(), r.inSlot(); now != nil && l != nil {
		tally := l.Tally()
		now.Calls += tally.Ops - l.counted.Ops
		now.Failures += tally.Failures - l.counted.Failures
		l.counted = tally
	}
}

// unexamined is an Examiner that knows nothing.
type unexamined struct{}

func (unexamined) Rehearse(context.Context, *plugin.Generation) Evidence { return Evidence{} }
func (unexamined) Examine(context.Context, *plugin.Generation) Evidence  { return Evidence{} }
