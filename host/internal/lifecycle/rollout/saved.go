package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

// maxKept is how many kept bundles are saved, beside one that is observed.
const maxKept = 2

// Saved is a bundle that a restart may begin with.
type Saved struct {
	// Version has the revision of the bundle: the terms of a generation are gone
	// after a restart.
	Version
	// Kept: its observation is over.
	Kept bool
}

func (s Saved) on(terms string) Revision {
	return Revision{Module: s.Digest, Bundle: s.Revision, Terms: terms}
}

// save has the record written, by the manager that leads, with what serves and
// what was kept before it.
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

// arrange brings what is saved into its order: what serves, and then what was
// kept. What went back is not among it.
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
	s := Saved{Version: *l.version(), Kept: l.revision.Bundle != r.state.Serving.Bundle || r.state.Good.Bundle == r.state.Serving.Bundle}
	s.Revision = l.revision.Bundle
	return s
}

// memory is what the journal has of this rollout.
func (r *Rollout) memory() Record {
	return Record{
		Saved: slices.Clone(r.saved), History: slices.Clone(r.history),
		Generation: r.generation, Paused: r.state.Paused, Refused: slices.Clone(r.state.Refused),
		Held: r.held,
	}
}

// recall takes over what was recorded.
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

// resume lets serve what is saved: the newest that may. Untried is the standing of what
// was not kept. What is left when all of it is suspected is the one that was kept last.
func (r *Rollout) resume(ctx context.Context, untried Standing) {
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
		if !r.state.Serving.none() || r.standingOf(s, untried) != Trusted {
			continue
		}
		// Invariant R16 (host/SECURITY.md): something serves, when anything was ever kept.
		if l, _ := r.revive(ctx, s, LastResort); l != nil {
			r.resumed(ctx, l, l)
			return
		}
	}
	if len(r.saved) > 0 && r.state.Serving.none() {
		r.resumption = r.options.Clock.After(resumptionRetry)
	}
}

// resumptionRetry is the time between two looks at what is saved, when nothing
// serves: of a suspect that was kept the time passes, and a private configuration is
// waited for until then.
const resumptionRetry = time.Minute

// reserve is what l goes back to while it is observed: itself where it was kept.
func (r *Rollout) reserve(ctx context.Context, l *loaded, saved []Saved) *loaded {
	if saved[0].Kept {
		return l
	}
	for _, s := range saved[1:] {
		if good, _ := r.revive(ctx, s, r.standingOf(s, Standby)); good != nil {
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

// standingOf what is saved. On another engine it is on trial again.
func (r *Rollout) standingOf(s Saved, untried Standing) Standing {
	// Invariant M14 (host/SECURITY.md): what was kept on this engine is trusted.
	if now := s.on(r.options.Loader.Revision()); cmp.Or(s.Engine, engine.Default) == now.Engine() && (s.Kept || r.history.knows(now)) {
		return Trusted
	}
	if s.Kept && untried == Resuming { // nobody has run it on this engine
		return Standby
	}
	return untried
}

// errPrivate is of a bundle without the configuration that it had.
var errPrivate = errors.New("its configuration is private, and is not kept; starting with what the source holds")

// revive loads what is saved, without a probe: it passed one before. An error
// changes nothing, and was told.
func (r *Rollout) revive(ctx context.Context, s Saved, standing Standing) (*loaded, error) {
	revision := s.on(r.options.Loader.Revision())
	if l := r.loads[revision]; l != nil {
		return l, nil
	}
	l, err := r.reload(ctx, s, revision, standing)
	if errors.Is(err, ErrTriedElsewhere) {
		return nil, err // it is loaded when this manager leads
	}
	if err != nil {
		r.options.Reporter.Journalled(fmt.Errorf("the saved %s %s cannot be loaded: %w", s.Name, s.Version.Version, err))
		return nil, err
	}
	r.loads.add(ctx, l)
	return r.loads[revision], nil
}

func (r *Rollout) reload(ctx context.Context, s Saved, revision Revision, standing Standing) (*loaded, error) {
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
