package rollout

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
)

// Trials records durably which bundles are being loaded and run: nothing of a bundle is
// compiled or run before it has returned without an error. It returns once the trial of the
// bundle by this manager, on the engine of that name, is recorded. The error is a
// *trial.Suspect, a *trial.Busy, or a failed write, which may be temporary.
type Trials func(ctx context.Context, bundle source.Bundle, engineName string, standing trial.Standing) (Trial, error)

// Trial is one attempt with a bundle. It is told the attempt's phases: Kept, which ends the
// trial well, and Ended. It does not block.
type Trial func(Phase)

// Ended tells a Trial that nothing of the attempt runs any more.
const Ended Phase = trial.Ended

// postponePeriod is the time between two looks at another manager's trial.
const postponePeriod = 2 * time.Second

// standing of an offered bundle. The same bundle on other terms, for example with another
// password, counts as kept. On another engine it does not: the engine may be at fault.
func (r *Rollout) standing(offered Revision) trial.Standing {
	switch {
	case r.state.Pardoned:
		return trial.Pardoned
	case r.history.knows(offered) && r.state.renews(): // a suspicion must not keep a new password from the serving bundle
		return trial.LastResort
	case r.history.knows(offered):
		return trial.Trusted
	case r.state.Leading:
		return trial.Offered
	}
	return trial.Standby
}

// prepare makes a generation, after its trial is recorded.
func (r *Rollout) prepare(ctx context.Context, bundle source.Bundle, revision Revision, standing trial.Standing, reached func(Phase)) (*loaded, error) {
	// Invariant M13 (host/SECURITY.md): the trial is recorded before anything of the bundle is
	// compiled or run.
	untried := Trial(func(Phase) {})
	attempt, err := untried, error(nil)
	if r.options.Trials != nil {
		attempt, err = r.options.Trials(ctx, bundle, revision.Engine(), standing)
	}
	// Invariant M15 (host/SECURITY.md): only a kept bundle is loaded without a record of its
	// trial.
	if err != nil && (standing == trial.Trusted || standing == trial.LastResort) && !trial.Decided(err) {
		// A good bundle must serve, also when nothing can be written.
		r.options.Reporter.Journalled(fmt.Errorf("the trial of the last kept generation is not recorded: %w", err))
		attempt, err = untried, nil
	}
	if err != nil {
		return nil, err
	}
	g, err := r.options.Loader.Prepare(ctx, bundle, func(p Phase) {
		attempt(p)
		reached(p)
	})
	if err != nil {
		attempt(Ended)
		return nil, err
	}
	r.watching.Go(func() {
		<-g.Closed()
		attempt(Ended)
	})
	return &loaded{Generation: g, revision: revision, trial: attempt, bundle: bundle}, nil
}

// elsewhere tells the state that another manager must try a bundle first.
func (r *Rollout) elsewhere(bundle source.Bundle, standing trial.Standing, why string) Action {
	if standing == trial.Standby && r.state.Leading {
		return r.state.load() // it has become the leader since
	}
	action := r.state.Postponed(why)
	r.report(bundle, nil)
	return action
}

// hide removes saved copies of a configuration that the source now calls private: it was
// public, and has moved unchanged. Other saved configurations go with it, all at once: no
// record in between calls some of it private and has the rest.
func (r *Rollout) hide() {
	now := r.current.bundle
	if !r.state.Leading || r.current.err != nil || !now.ConfigPrivate {
		return
	}
	moved := false
	for _, l := range r.loads {
		if !l.bundle.ConfigPrivate && bytes.Equal(l.bundle.Config, now.Config) {
			l.bundle.ConfigPrivate, moved = true, true
		}
	}
	if moved {
		r.save()
	}
}
