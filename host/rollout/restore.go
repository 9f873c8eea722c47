package rollout

import (
	"context"
	"errors"
	"fmt"

	"github.com/wasm-ccm/wasm-ccm/host/source"
)

// restore lets the generation that was kept before a restart serve at once:
// what the source holds now may be worse, and nothing is there to observe it
// against.
func (r *Rollout) restore(ctx context.Context) {
	record, bundle, err := r.remembered(ctx)
	if err != nil {
		r.options.Reporter.Journalled(fmt.Errorf("reading what was kept before the restart: %w; starting with what the source holds", err))
		return
	}
	r.recall(record)
	if bundle != nil && record.Good != nil {
		r.revive(ctx, *bundle)
	}
}

// remembered reads the journal until that ends well, or cannot any more: what
// the source holds may have been refused, which only the record knows.
func (r *Rollout) remembered(ctx context.Context) (Record, *source.Bundle, error) {
	delays := newDelays()
	for {
		record, bundle, err := r.journal.load(ctx)
		if err == nil || errors.Is(err, ErrNoRecord) {
			return record, bundle, err
		}
		r.options.Reporter.Journalled(fmt.Errorf("reading what was kept before the restart, which is tried again: %w", err))
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

// revive loads a bundle that was good and lets it serve. It is not probed: what
// it needs of the cloud it needed before. An error leaves all as it was.
func (r *Rollout) revive(ctx context.Context, bundle source.Bundle) {
	l, err := r.prepare(ctx, bundle, Trusted, func(Phase) {})
	if err != nil {
		r.options.Reporter.Journalled(fmt.Errorf("the generation that was kept last cannot be loaded any more: %w", err))
		return
	}
	l.revision, l.served = r.revision(bundle), r.options.Clock.Now()
	r.add(l)
	r.options.Slot.Serve(l.Generation)
	l.trial.Reached(Serving)
	r.serving, r.good, r.candidate = l, l, nil
	r.state.Restored(l.revision)
	r.collect(ctx)
	r.settle(l)
	r.report(bundle, l)
}

// led takes over from the manager that led before.
func (r *Rollout) led(ctx context.Context) Action {
	record, bundle, err := r.journal.load(ctx)
	if err != nil {
		r.options.Reporter.Journalled(fmt.Errorf("reading what the leader before has kept: %w", err))
	}
	r.recall(record)
	good := ""
	if record.Good != nil {
		good = record.Good.Revision
	}
	if bundle != nil && good != "" && good != r.state.Serving && good != r.state.Candidate {
		r.worker.cancel()
		r.revive(ctx, *bundle)
		action := r.state.Lead(good, record.Refused, r.options.Policy().Modes)
		if action == Nothing && !r.current.at.IsZero() {
			return r.offered()
		}
		return action
	}
	return r.state.Lead(good, record.Refused, r.options.Policy().Modes)
}
