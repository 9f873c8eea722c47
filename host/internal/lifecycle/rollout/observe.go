package rollout

import (
	"context"
	"fmt"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// Budget bounds the failed ops of a new generation during its observation. It is exceeded by
// more than Failures that are also more than Percent of its ops, on top of the earlier share
// of failures: an outage of the cloud is not the new generation's fault.
type Budget struct{ Failures, Percent int }

// exceeded compares the new generation's tally with the usual one before.
func (b Budget) exceeded(now, before plugin.Tally) bool {
	share := b.Percent
	if before.Ops > 0 {
		share += before.Failures * 100 / before.Ops
	}
	return now.Failures > b.Failures && now.Failures*100 > share*now.Ops
}

// watch is the observation of the serving generation; zero without one.
type watch struct {
	failed <-chan struct{}
	over   <-chan time.Time
	before plugin.Tally
	since  plugin.Tally // the serving generation's tally at its takeover, or when the time was prolonged
}

// from is a watch that counts from now on.
func from(l *loaded) watch {
	select {
	case <-l.Failed(): // of earlier failures
	default:
	}
	return watch{since: l.Tally()}
}

// observe begins or continues the observation. Without a generation to go back to, it examines at
// once: waiting would change nothing.
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
		return Examine
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
	action := r.state.Unfit(ReasonErrorBudget, fmt.Sprintf("%d of %d ops failed, the last one: %v", tally.Failures, tally.Ops, l.LastFailure()), policy.Modes)
	if action == Nothing && !known {
		r.longer = true
		r.report(l.bundle, l)
	}
	return action
}

// examine asks the serving generation, beside Run, for the ops that nobody has called yet.
func (r *Rollout) examine(ctx context.Context) {
	l := r.serving()
	r.examiner.begin(ctx, func(ctx context.Context, _ func(Phase)) (func() Action, func(context.Context)) {
		evidence := r.options.Examiner.Examine(ctx, l.Generation)
		return func() Action { return r.examined(l, evidence) }, nothing
	})
}

// examined decides by the evidence about the serving generation.
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

// count adds the serving generation's calls to the history.
func (r *Rollout) count() {
	if now, l := r.history.now(), r.inSlot(); now != nil && l != nil {
		tally := l.Tally()
		now.Calls += tally.Ops - l.counted.Ops
		now.Failures += tally.Failures - l.counted.Failures
		l.counted = tally
	}
}

// unexamined is an Examiner without answers.
type unexamined struct{}

func (unexamined) Rehearse(context.Context, *plugin.Generation) Evidence { return Evidence{} }
func (unexamined) Examine(context.Context, *plugin.Generation) Evidence  { return Evidence{} }
