package rollout

import (
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
}

func (r *Rollout) observe() {
	r.watch = watch{failed: r.serving().Failed(), over: r.options.Clock.After(r.options.Policy().ObservePeriod)}
	if good := r.good(); good != nil {
		r.watch.before = good.Recent()
	}
}

// watched looks at the budget after a failure.
func (r *Rollout) watched() Action {
	l := r.serving()
	policy, tally := r.options.Policy(), l.Tally()
	if !policy.Budget.exceeded(tally, r.watch.before) {
		return Nothing
	}
	known := r.state.Reason == ReasonErrorBudget
	action := r.state.OverBudget(fmt.Sprintf("%d of %d ops failed, the last one: %v", tally.Failures, tally.Ops, l.LastFailure()), policy.Modes)
	if action == Nothing && !known {
		r.report(l.bundle, l)
	}
	return action
}
