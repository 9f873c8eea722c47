package rollout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

// Standing says why a bundle is to be loaded.
type Standing int

// The standings.
const (
	// Offered by the source, to the manager that leads: it is on trial.
	Offered Standing = iota
	// Pardoned is Offered, and a person wants it although it is suspected.
	Pardoned
	// Trusted was kept once.
	Trusted
	// LastResort is Trusted, and there is nothing else to serve, or it serves already.
	LastResort
	// Resuming served when a manager ended in order. One manager at a time tries it.
	Resuming
	// Standby is offered to a manager that does not lead. It waits until the
	// leader has passed it.
	Standby
)

// Trials remembers, where it outlives the manager, what is being loaded and
// run: nothing of a bundle is compiled or run before Begin has returned well.
type Trials interface {
	// Begin returns once the trial of the bundle by this manager, on the engine of
	// that name, is recorded.
	// The error is a *Suspected, ErrTriedElsewhere, or a failed write, which
	// may be temporary.
	Begin(ctx context.Context, bundle source.Bundle, engineName string, standing Standing) (Trial, error)
}

// Trial is one attempt with a bundle. Its methods do not block.
type Trial interface {
	// Reached tells of a phase.
	Reached(Phase)
	// Kept ends the trial well. The bundle goes on running.
	Kept()
	// Ended tells that nothing of the attempt runs any more.
	Ended()
}

// ErrTriedElsewhere is of a bundle that another manager has to pass first.
var ErrTriedElsewhere = errors.New("waiting for another manager")

// Suspected is of a bundle in which a manager ended. Nobody loads it until a
// person promotes it, or until Again has passed, if that is not 0.
type Suspected struct {
	Err   error
	Again time.Duration
}

func (e *Suspected) Error() string { return e.Err.Error() }

// Unwrap returns what is known of it.
func (e *Suspected) Unwrap() error { return e.Err }

// postponePeriod is the time between two looks at what another tries.
const postponePeriod = 2 * time.Second

// untried stands for Trials where there are none.
type untried struct{}

func (untried) Begin(context.Context, source.Bundle, string, Standing) (Trial, error) {
	return untried{}, nil
}
func (untried) Reached(Phase) {}
func (untried) Kept()         {}
func (untried) Ended()        {}

// standing of a bundle that the source offers. The same bundle on other terms,
// for example with another password, is what was kept. On another engine it is
// not: what ends a manager may be the engine's fault.
func (r *Rollout) standing(offered Revision) Standing {
	switch {
	case r.state.Pardoned:
		return Pardoned
	case r.history.knows(offered) && r.state.renews(): // a suspicion does not keep a password from what serves
		return LastResort
	case r.history.knows(offered):
		return Trusted
	case r.state.Leading:
		return Offered
	}
	return Standby
}

// prepare makes a generation, after its trial is recorded.
func (r *Rollout) prepare(ctx context.Context, bundle source.Bundle, revision Revision, standing Standing, reached func(Phase)) (*loaded, error) {
	// Invariant M13 (host/SECURITY.md): it is written down before anything of the bundle is
	// compiled or run.
	trial, err := r.options.Trials.Begin(ctx, bundle, revision.Engine(), standing)
	// Invariant M15 (host/SECURITY.md): only what was kept is loaded without being written down.
	if err != nil && (standing == Trusted || standing == LastResort) && !isVerdict(err) {
		// What was good must serve, also when nothing can be written.
		r.options.Reporter.Journalled(fmt.Errorf("the trial of the last kept generation is not recorded: %w", err))
		trial, err = untried{}, nil
	}
	if err != nil {
		return nil, err
	}
	g, err := r.options.Loader.Prepare(ctx, bundle, func(p Phase) {
		trial.Reached(p)
		reached(p)
	})
	if err != nil {
		trial.Ended()
		return nil, err
	}
	r.watching.Go(func() {
		<-g.Closed()
		trial.Ended()
	})
	return &loaded{Generation: g, revision: revision, trial: trial, bundle: bundle}, nil
}

// isVerdict tells an answer of Trials from their failure.
func isVerdict(err error) bool {
	var suspected *Suspected
	return errors.As(err, &suspected) || errors.Is(err, ErrTriedElsewhere)
}

// notBegun tells the state why nothing of a bundle was run; ok is false when
// that is not what err says.
func (r *Rollout) notBegun(bundle source.Bundle, standing Standing, err error) (a Action, ok bool) {
	var suspected *Suspected
	switch {
	case errors.As(err, &suspected):
		a, r.again = r.state.Suspected(err.Error(), suspected.Again > 0), suspected.Again
		r.reportError(bundle, err)
	case errors.Is(err, ErrTriedElsewhere) && standing == Standby && r.state.Leading:
		a = r.state.load() // it leads since it asked
	case errors.Is(err, ErrTriedElsewhere):
		a = r.state.Postponed(err.Error())
		r.report(bundle, nil)
	default:
		return Nothing, false
	}
	return a, true
}

// hide has no configuration saved that the source holds, and calls private: it
// was public, and has moved as it is. What else was saved goes with it, and all
// at once: no record in between calls some of it private and has the rest.
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
