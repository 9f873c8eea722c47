package rollout

import (
	"context"
	"errors"
	"slices"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
	"github.com/wasm-ccm/wasm-ccm/host/internal/quota"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

func nothing(context.Context) {}

// load prepares the candidate beside Run, unless it is loaded already.
func (r *Rollout) load(ctx context.Context) Action {
	bundle := r.current.bundle
	revision, standing := r.state.Candidate, r.standing(r.state.Candidate)
	r.drop(ctx)
	r.retry = nil
	r.report(bundle, nil)
	if l := r.candidate(); l != nil {
		l.bundle = bundle // the same content may come from elsewhere
		return r.state.Loaded(r.options.Policy().Modes)
	}
	r.worker.begin(ctx, func(ctx context.Context, reached func(Phase)) (func() Action, func(context.Context)) {
		l, err := r.prepare(ctx, bundle, revision, standing, reached)
		if err != nil {
			return func() Action { return r.failed(bundle, standing, err) }, nothing
		}
		return func() Action {
			r.loads.add(ctx, l)
			return r.state.Loaded(r.options.Policy().Modes)
		}, l.Release
	})
	return Nothing
}

// progressed records a phase reached by the work.
func (r *Rollout) progressed(p progress) Action {
	if p.id == r.worker.id {
		r.state.Reached(p.phase)
		r.report(r.current.bundle, nil)
	}
	return Nothing
}

// failed tells the state why the candidate cannot be loaded. A failure that involves the
// cloud may be temporary.
func (r *Rollout) failed(bundle source.Bundle, standing trial.Standing, err error) Action {
	if _, busy := errors.AsType[*trial.Busy](err); busy {
		return r.elsewhere(bundle, standing, err.Error())
	}
	reason, temporary := loadReason(err)
	if suspect, ok := errors.AsType[*trial.Suspect](err); ok {
		r.again = suspect.Again(r.options.Clock.Now())
		reason, temporary = ReasonModuleSuspected, r.again > 0
	}
	// Invariant M18 (host/SECURITY.md): a failing candidate changes the state of the offer, not
	// the slot.
	action := r.state.Failed(reason, err.Error(), temporary)
	r.reportError(bundle, err)
	return action
}

func (r *Rollout) probe(ctx context.Context) {
	l := r.candidate()
	r.worker.begin(ctx, func(ctx context.Context, _ func(Phase)) (func() Action, func(context.Context)) {
		err := l.Probe(ctx)
		return func() Action {
			problem := ""
			if err != nil {
				problem = err.Error()
			}
			action := r.state.ProbeDone(problem, r.options.Policy().Modes)
			l.trial(Probed)
			if err != nil {
				r.reportError(l.bundle, err)
			} else {
				r.report(l.bundle, l)
			}
			return action
		}, nothing
	})
}

func (r *Rollout) shadow(ctx context.Context) {
	l := r.candidate()
	r.worker.begin(ctx, func(ctx context.Context, _ func(Phase)) (func() Action, func(context.Context)) {
		evidence := r.options.Examiner.Rehearse(ctx, l.Generation)
		return func() Action {
			r.allowed = evidence.Failure != "" || evidence.Differs != "" && !r.state.intended()
			action := r.state.Rehearsed(evidence, r.options.Policy().Modes)
			if r.state.Phase == Held || r.state.Phase == Rejected {
				r.save()
			}
			if r.state.Phase == Rejected {
				r.reportError(l.bundle, errors.New(evidence.Failure))
			} else {
				r.report(l.bundle, l)
			}
			return action
		}, nothing
	})
}

// serve makes the candidate the serving generation.
func (r *Rollout) serve(ctx context.Context) Action {
	r.worker.cancel()
	l := r.candidate()
	r.swap(l)
	r.generation++
	action := r.state.Served(r.options.Policy().Modes)
	r.begun()
	r.collect(ctx, Revision{})
	r.save()
	r.report(l.bundle, l)
	return action
}

// swap puts a generation into the slot.
func (r *Rollout) swap(l *loaded) {
	r.watch = from(l)
	r.examiner.cancel()
	r.count() // of the generation that served until now
	r.options.Slot.Serve(l.Generation)
	r.since, r.state.Proof, r.longer = r.options.Clock.Now(), "", false
	l.trial(Serving)
}

// begun adds the serving generation to the history.
func (r *Rollout) begun() {
	l := r.serving()
	if l == nil || !r.state.Leading {
		return
	}
	now := r.options.Clock.Now()
	s := Served{Module: *l.version(), Generation: r.generation, Offered: r.current.at, From: now, Kept: r.history.keptAt(l.revision)}
	if r.current.bundle.Revision != l.revision.Bundle { // after a rollback
		s.Offered = r.history.offeredAt(l.revision, s.Offered)
	}
	s.Revision = l.revision.Bundle
	r.history.begin(s, l.revision)
}

// keep makes the serving generation the one to go back to. A garbage collection stops all
// goroutines: it exposes a guest that cannot be stopped now, and not minutes later when its
// cause is hard to find.
func (r *Rollout) keep(ctx context.Context) {
	r.watch = watch{}
	r.collectGarbage()
	r.count()
	if now := r.history.now(); now != nil {
		if r.state.Proof == "" {
			r.state.Proof = notObserved(*now)
		}
		if now.Kept.IsZero() {
			now.Kept = r.options.Clock.Now()
		}
	}
	r.state.KeepDone()
	if reserve := r.loads[r.state.Previous]; reserve != nil {
		reserve.Trim(ctx)
	}
	r.collect(ctx, Revision{})
	l := r.serving()
	l.trial(Kept)
	r.save()
	if r.state.Phase == Rejected {
		r.report(r.current.bundle, nil)
		return
	}
	r.report(l.bundle, l)
}

// notObserved summarises a generation without observation.
func notObserved(now Served) string {
	if !now.Kept.IsZero() {
		return "kept before; " + now.proof()
	}
	return "not observed; " + now.proof()
}

// rollBack lets the kept generation serve again.
func (r *Rollout) rollBack(ctx context.Context) {
	failed := r.inSlot()
	if r.state.Candidate.none() {
		r.worker.cancel()
		r.retry = nil
	}
	r.swap(r.good())
	r.saved = slices.DeleteFunc(r.saved, func(s Saved) bool {
		return s.Revision == failed.revision.Bundle && failed.revision.Bundle != r.good().revision.Bundle
	})
	r.generation++
	r.history.end(r.options.Clock.Now(), r.state.Ended, r.by)
	r.by = ""
	r.begun()
	r.save()
	r.report(failed.bundle, failed)
	r.collect(ctx, Revision{})
	if s := &r.state; s.Offered.Bundle == s.Serving.Bundle && s.Offered != s.Serving { // it is the serving bundle, with the current terms
		r.Reload()
	}
}

// drop releases the candidate, and ends the work on it.
func (r *Rollout) drop(ctx context.Context) {
	r.worker.cancel()
	r.collect(ctx, r.state.Candidate)
}

func sourceReason(err error) string {
	var e *source.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return "SourceFailed"
}

// loadReason returns why a bundle was unfit, and whether that may pass without a change of
// the bundle: a probe of the cloud, or a full disk.
func loadReason(err error) (reason string, temporary bool) {
	var e *plugin.LoadError
	if !errors.As(err, &e) {
		return "LoadFailed", true
	}
	// Invariant R19 (host/SECURITY.md): a full disk is temporary.
	return e.Reason, e.Phase == plugin.PhaseProbe || quota.Short(err)
}

// PhaseOf maps a phase of package plugin to a phase of a rollout.
func PhaseOf(loaded string) Phase {
	switch loaded {
	case plugin.PhaseVerify:
		return Verified
	case plugin.PhaseCompile:
		return Compiled
	case plugin.PhaseDescribe:
		return Described
	case plugin.PhaseConfigure:
		return Configured
	}
	return Loading
}
