package rollout

import (
	"context"
	"errors"
	"fmt"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
)

// restore lets the generation from before the restart serve at once: the source's current
// offer may be worse, and there is nothing to compare it with.
func (r *Rollout) restore(ctx context.Context) {
	record, err := r.remembered(ctx)
	if ctx.Err() != nil {
		return
	}
	r.recall(record)
	if err != nil {
		r.options.Reporter.Journalled(fmt.Errorf("reading the saved record: %w; starting with the module of the source", err))
		return
	}
	r.resume(ctx, trial.Resuming)
}

// remembered reads the journal until that succeeds, or fails for good: the source's offer
// may have been refused, which only the record tells.
func (r *Rollout) remembered(ctx context.Context) (Record, error) {
	delays := newDelays()
	for {
		record, err := r.journal.load(ctx)
		if err == nil || errors.Is(err, ErrNoRecord) {
			return record, err
		}
		r.options.Reporter.Journalled(fmt.Errorf("reading the saved record failed and is repeated: %w", err))
		select {
		case <-ctx.Done():
			return Record{}, ctx.Err()
		case <-r.options.Clock.After(delays.Step()):
		}
	}
}

// takeOver takes over from the previous leader once its record is read: its serving
// generation, its refusals, and a pause. Until then this manager decides nothing, and the
// serving generation continues.
func (r *Rollout) takeOver(ctx context.Context) Action {
	r.takeover = nil
	if r.state.Leading {
		return Nothing
	}
	record, err := r.journal.load(ctx)
	switch {
	case errors.Is(err, ErrNoRecord):
		r.options.Reporter.Journalled(fmt.Errorf("reading the previous leader's record: %w", err))
		record = r.memory() // nobody has resumed this manager's pause
		record.Paused = record.Paused || r.state.Paused
	case err != nil:
		r.options.Reporter.Journalled(fmt.Errorf("reading the record of the previous leader failed and is repeated; no rollout starts before: %w", err))
		r.takeover = r.options.Clock.After(r.delays.Step())
		return Nothing
	}
	r.recall(record)
	return r.assume(ctx)
}

// assume begins to lead: the previous leader's generation serves here, and its observation
// continues.
func (r *Rollout) assume(ctx context.Context) Action {
	if len(r.saved) > 0 && r.saved[0].Revision != r.state.Serving.Bundle {
		r.worker.cancel()
		r.state.settle() // the offer is examined anew
		r.resume(ctx, trial.Offered)
		r.wentBack()
	}
	modes := r.options.Policy().Modes
	action := r.state.Lead(modes)
	r.hide()
	r.begun()
	if now := r.history.now(); now != nil {
		r.since = now.From
	}
	for proof := r.state.proven(false, modes); proof != Nothing; {
		proof = r.do(ctx, proof)
	}
	r.save()
	if action == Nothing && r.state.Candidate.none() && !r.current.at.IsZero() {
		return r.offered()
	}
	return action
}

// wentBack records why another generation serves than in the manager before.
func (r *Rollout) wentBack() {
	if now, l := r.history.now(), r.serving(); now != nil && l != nil && !now.same(l.revision) {
		r.generation++
		r.history.end(r.options.Clock.Now(), ReasonModuleSuspected, "")
	}
}
