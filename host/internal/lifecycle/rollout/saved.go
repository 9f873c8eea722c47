package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// maxKept bounds the saved kept bundles, beside an observed one.
const maxKept = 2

// Saved is a bundle for a restart.
type Saved struct {
	// Module has the revision of the bundle: the terms of a generation end with the process.
	v1alpha1.Module
	// Kept: its observation is over.
	Kept bool `json:"kept,omitempty"`
}

func (s Saved) on(terms string) Revision {
	return Revision{Module: s.Digest, Bundle: s.Revision, Terms: terms}
}

// save has the leader write the record with the serving bundle and the kept ones before it.
func (r *Rollout) save() {
	if !r.state.Leading {
		return
	}
	r.count()
	r.arrange()
	var bundles []source.Bundle
	for _, l := range []*loaded{r.serving(), r.good(), r.loads[r.state.Previous]} {
		if l != nil {
			bundles = append(bundles, l.bundle)
		}
	}
	r.journal.save(r.memory(), bundles)
}

// arrange sorts the saved bundles: the serving one, then the kept ones. Rolled back bundles
// are excluded.
func (r *Rollout) arrange() {
	next := []Saved{}
	for _, l := range []*loaded{r.serving(), r.good(), r.loads[r.state.Previous]} {
		if l != nil {
			next = append(next, r.savedOf(l))
		}
	}
	next = append(next, r.saved...)
	kept, seen := 0, map[string]bool{}
	r.saved = slices.DeleteFunc(next, func(s Saved) bool {
		if seen[s.Revision] || !s.Kept && len(seen) > 0 || s.Kept && kept == maxKept || r.state.refusal(s.on("")) != nil && s.Revision != r.state.Serving.Bundle {
			return true
		}
		seen[s.Revision] = true
		if s.Kept {
			kept++
		}
		return false
	})
}

func (r *Rollout) savedOf(l *loaded) Saved {
	s := Saved{Module: *l.version(), Kept: l.revision.Bundle != r.state.Serving.Bundle || r.state.Good.Bundle == r.state.Serving.Bundle}
	s.Revision = l.revision.Bundle
	return s
}

// memory is the record of this rollout.
func (r *Rollout) memory() Record {
	return Record{
		Saved: slices.Clone(r.saved), History: slices.Clone(r.history),
		Generation: r.generation, Paused: r.state.Paused, Refused: slices.Clone(r.state.Refused),
		Held: r.held,
	}
}

// recall takes the record over.
func (r *Rollout) recall(record Record) {
	r.saved, r.history = slices.Clone(record.Saved), slices.Clone(record.History)
	r.generation = max(r.generation, record.Generation)
	r.state.Paused = record.Paused
	r.held = cmp.Or(r.held, record.Held)
	r.state.Refused = slices.Clone(record.Refused)
	if now := r.history.now(); now != nil {
		r.state.Proof = now.proof()
	}
}

// resume lets a saved bundle serve: the newest that may. Untried is the standing of a bundle
// that was not kept. If all are suspects, the last kept one is the last resort.
func (r *Rollout) resume(ctx context.Context, untried trial.Standing) {
	r.resumption = nil
	for i, s := range r.saved {
		l, err := r.revive(ctx, s, r.standingOf(s, untried))
		if l != nil {
			r.resumed(ctx, l, r.reserve(ctx, l, r.saved[i:]))
			return
		}
		if errors.Is(err, errPrivate) && !r.overdue { // an older one may be of another cloud
			r.resumption = r.options.Clock.After(resumptionRetry)
			return
		}
	}
	for _, s := range r.saved {
		if !r.state.Serving.none() || r.standingOf(s, untried) != trial.Trusted {
			continue
		}
		// Invariant R16 (host/SECURITY.md): if a bundle was ever kept, one serves.
		if l, _ := r.revive(ctx, s, trial.LastResort); l != nil {
			r.resumed(ctx, l, l)
			return
		}
	}
	if len(r.saved) > 0 && r.state.Serving.none() {
		r.resumption = r.options.Clock.After(resumptionRetry)
	}
}

// resumptionRetry is the time between two looks at the saved bundles while nothing serves: a
// kept suspect's block expires, and a private configuration may arrive.
const resumptionRetry = time.Minute

// reserve is the generation to go back to while l is observed: l itself if it was kept.
func (r *Rollout) reserve(ctx context.Context, l *loaded, saved []Saved) *loaded {
	if saved[0].Kept {
		return l
	}
	for _, s := range saved[1:] {
		if good, _ := r.revive(ctx, s, r.standingOf(s, trial.Standby)); good != nil {
			return good
		}
	}
	return nil
}

func (r *Rollout) resumed(ctx context.Context, l, good *loaded) {
	if l != r.inSlot() {
		r.swap(l)
	}
	r.state.Resumed(l.revision, revisionOf(good))
	r.collect(ctx, Revision{})
	r.report(l.bundle, l)
}

func revisionOf(l *loaded) Revision {
	if l == nil {
		return Revision{}
	}
	return l.revision
}

// standingOf a saved bundle. On another engine it is on trial again.
func (r *Rollout) standingOf(s Saved, untried trial.Standing) trial.Standing {
	// Invariant M14 (host/SECURITY.md): a bundle kept on this engine is trusted.
	if now := s.on(r.options.Loader.Revision()); cmp.Or(s.Engine, engine.Default) == now.Engine() && (s.Kept || r.history.knows(now)) {
		return trial.Trusted
	}
	if s.Kept && untried == trial.Resuming { // never run on this engine
		return trial.Standby
	}
	return untried
}

// errPrivate is the error of a bundle without its private configuration.
var errPrivate = errors.New("its configuration is private and therefore not saved; starting with the module of the source")

// revive loads a saved bundle, without the probe that it passed before. An error changes
// nothing, and was reported.
func (r *Rollout) revive(ctx context.Context, s Saved, standing trial.Standing) (*loaded, error) {
	revision := s.on(r.options.Loader.Revision())
	if l := r.loads[revision]; l != nil {
		return l, nil
	}
	l, err := r.reload(ctx, s, revision, standing)
	if _, busy := errors.AsType[*trial.Busy](err); busy {
		return nil, err // it is loaded when this manager leads
	}
	if err != nil {
		r.options.Reporter.Journalled(fmt.Errorf("the saved %s %s cannot be loaded: %w", s.Name, s.Version, err))
		return nil, err
	}
	r.loads.add(ctx, l)
	return r.loads[revision], nil
}

func (r *Rollout) reload(ctx context.Context, s Saved, revision Revision, standing trial.Standing) (*loaded, error) {
	bundle, err := r.journal.bundle(ctx, s.Revision)
	// Invariant R13 (host/SECURITY.md): a module that had a private configuration
	// does not serve without it.
	if err == nil && bundle.ConfigPrivate {
		err = errPrivate
	}
	if err != nil {
		return nil, err
	}
	return r.prepare(ctx, *bundle, revision, standing, func(Phase) {})
}
