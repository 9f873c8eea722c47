package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

// restore lets the generation that was kept before a restart serve at once:
// what the source holds now may be worse, and nothing is there to observe it
// against.
func (r *Rollout) restore(ctx context.Context) {
	record, bundle, err := r.remembered(ctx)
	if ctx.Err() != nil {
		return
	}
	r.recall(record)
	if err != nil {
		r.options.Reporter.Journalled(fmt.Errorf("reading the kept generation: %w; starting with the module of the source", err))
		return
	}
	if bundle != nil && record.Good != nil {
		r.revive(ctx, *bundle, Standby)
	}
}

// errPrivate is of a bundle without the configuration that it had.
var errPrivate = errors.New("its configuration is private, and is not kept; starting with what the source holds")

// remembered reads the journal until that ends well, or cannot any more: what
// the source holds may have been refused, which only the record knows.
func (r *Rollout) remembered(ctx context.Context) (Record, *source.Bundle, error) {
	delays := newDelays()
	for {
		record, bundle, err := r.journal.load(ctx)
		if err == nil || errors.Is(err, ErrNoRecord) {
			return record, bundle, err
		}
		r.options.Reporter.Journalled(fmt.Errorf("reading the kept generation failed and is repeated: %w", err))
		select {
		case <-ctx.Done():
			return Record{}, nil, ctx.Err()
		case <-r.options.Clock.After(delays.Step()):
		}
	}
}

// recall takes over what was recorded.
func (r *Rollout) recall(record Record) {
	if record.Good != nil {
		r.recorded = record.Good
	}
	r.generation = max(r.generation, record.Generation)
	r.state.Paused = record.Paused
	for _, refused := range record.Refused {
		r.state.refuse(refused)
	}
}

// revive loads the good bundle and lets it serve, without a probe: the bundle
// passed one before. An error changes nothing. Untried is its standing where it
// was kept on another engine than that of now.
func (r *Rollout) revive(ctx context.Context, bundle source.Bundle, untried Standing) {
	revision, standing := r.revision(bundle), Trusted
	// Invariant M14 (host/SECURITY.md): on another engine it is on trial again.
	if r.recorded != nil && cmp.Or(r.recorded.Engine, engine.Default) != revision.Engine() {
		standing = untried
	}
	// Invariant R13 (host/SECURITY.md): a module that had a private configuration
	// does not serve without it.
	err := errPrivate
	var l *loaded
	if !bundle.ConfigPrivate {
		l, err = r.prepare(ctx, bundle, revision, standing, func(Phase) {})
	}
	if err != nil {
		r.options.Reporter.Journalled(fmt.Errorf("the last kept generation cannot be loaded: %w", err))
		return
	}
	r.loads.add(ctx, l)
	l = r.loads[revision]
	r.swap(l)
	r.state.Restored(l.revision)
	r.collect(ctx, Revision{})
	r.settle(l)
	r.report(bundle, l)
}

// takeOver takes over from the previous leader, once its record is known: its
// refusals, and whether a person has paused the rollout. Until then this
// manager decides nothing, and the serving generation goes on.
func (r *Rollout) takeOver(ctx context.Context) Action {
	r.takeover = nil
	if r.state.Leading {
		return Nothing
	}
	record, bundle, err := r.journal.load(ctx)
	switch {
	case errors.Is(err, ErrNoRecord):
		r.options.Reporter.Journalled(fmt.Errorf("reading what the leader before has kept: %w", err))
		record.Paused = record.Paused || r.state.Paused // nobody has resumed it
	case err != nil:
		r.options.Reporter.Journalled(fmt.Errorf("reading the record of the previous leader failed and is repeated; no rollout starts before: %w", err))
		r.takeover = r.options.Clock.After(r.delays.Step())
		return Nothing
	}
	if err == nil {
		r.state.Refused = nil // the record knows better: a person may have let it through since
	}
	r.recall(record)
	action := r.leadWith(ctx, r.goodOf(record, bundle), bundle, record.Refused)
	r.hide()
	if !slices.Equal(r.state.Refused, record.Refused) { // what serves is refused no more
		r.save()
	}
	return action
}

// leadWith begins to lead with what the leader before has kept.
func (r *Rollout) leadWith(ctx context.Context, good Revision, bundle *source.Bundle, refused []Refusal) Action {
	alone, modes := r.state.Good.none(), r.options.Policy().Modes
	ready := good == r.state.Serving || good == r.state.Candidate && r.state.Ready
	// What was kept served until now: no probe of another manager, with another
	// password perhaps, has something older serve instead.
	if bundle == nil || ready {
		action := r.state.Lead(good, refused, modes)
		if alone && !r.state.Good.none() {
			r.settle(r.good())
		}
		return action
	}
	r.worker.cancel()
	r.revive(ctx, *bundle, Offered)
	action := r.state.Lead(good, refused, modes)
	if action == Nothing && !r.current.at.IsZero() {
		return r.offered()
	}
	return action
}

// goodOf is what a record calls good, on the terms of now: those of then are
// gone.
func (r *Rollout) goodOf(record Record, bundle *source.Bundle) Revision {
	switch {
	case record.Good == nil:
		return Revision{}
	case bundle != nil:
		return r.revision(*bundle)
	}
	return Revision{Module: record.Good.Digest, Bundle: record.Good.Revision, Terms: r.options.Loader.Revision()}
}
