package rollout

import (
	"context"
	"errors"
	"fmt"
)

// restore lets the generation that served before a restart serve at once:
// what the source holds now may be worse, and nothing is there to observe it
// against.
func (r *Rollout) restore(ctx context.Context) {
	record, err := r.remembered(ctx)
	if ctx.Err() != nil {
		return
	}
	r.recall(record)
	if err != nil {
		r.options.Reporter.Journalled(fmt.Errorf("reading what is saved: %w; starting with the module of the source", err))
		return
	}
	r.resume(ctx, Resuming)
}

// remembered reads the journal until that ends well, or cannot any more: what
// the source holds may have been refused, which only the record knows.
func (r *Rollout) remembered(ctx context.Context) (Record, error) {
	delays := newDelays()
	for {
		record, err := r.journal.load(ctx)
		if err == nil || errors.Is(err, ErrNoRecord) {
			return record, err
		}
		r.options.Reporter.Journalled(fmt.Errorf("reading what is saved failed and is repeated: %w", err))
		select {
		case <-ctx.Done():
			return Record{}, ctx.Err()
		case <-r.options.Clock.After(delays.Step()):
		}
	}
}

// takeOver takes over from the previous leader, once its record is known: what
// it let serve, its refusals, and whether a person has paused the rollout. Until then this
// manager decides nothing, and the serving generation goes on.
func (r *Rollout) takeOver(ctx context.Context) Action {
	r.takeover = nil
	if r.state.Leading {
		return Nothing
	}
	record, err := r.journal.load(ctx)
	switch {
	case errors.Is(err, ErrNoRecord):
		r.options.Reporter.Journalled(fmt.Errorf("reading what the leader before has saved: %w", err))
		record = r.memory() // nobody has resumed what is paused here
		record.Paused = record.Paused || r.state.Paused
	case err != nil:
		r.options.Reporter.Journalled(fmt.Errorf("reading the record of the previous leader failed and is repeated; no rollout starts before: %w", err))
		r.takeover = r.options.Clock.After(r.delays.Step())
		return Nothing
	}
	r.recall(record)
	return r.assume(ctx)
}

// assume begins to lead: what the leader before let serve serves here, and its
// observation goes on.
func (r *Rollout) assume(ctx context.Context) Action {
	if len(r.saved) > 0 && r.saved[0].Revision != r.state.Serving.Bundle {
		r.worker.cancel()
		r.state.settle() // what is offered is looked at anew
		r.resume(ctx, Offered)
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

// wentBack has the history know why something else serves than in the manager
// before.
func (r *Rollout) wentBack() {
	if now, l := r.history.now(), r.serving(); now != nil && l != nil && !now.same(l.revision) {
		r.generation++
		r.history.end(r.options.Clock.Now(), ReasonModuleSuspected, "")
	}
}
