package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
)

// journal keeps the record of a rollout in the provider's ConfigMap. It is a
// rollout.Journal.
type journal struct {
	object *status.Object
	// scrub removes secrets from a guest's texts: the record has more readers
	// than Secrets have.
	scrub func(string) string
}

// Load implements rollout.Journal.
func (j journal) Load(ctx context.Context) (rollout.Record, error) {
	r, err := j.object.Load(ctx)
	out := rollout.Record{Generation: r.Generation, Paused: r.Paused, Held: r.Held}
	for _, s := range r.Saved {
		out.Saved = append(out.Saved, rollout.Saved{Version: rollout.Version(s.Version), Kept: s.Kept})
	}
	for _, s := range r.History {
		out.History = append(out.History, rollout.Served{
			Version: rollout.Version(s.Version), Generation: s.Generation, Offered: s.Offered, From: s.From, Until: s.Until, Kept: s.Kept,
			Calls: s.Calls, Failures: s.Failures, Questions: s.Questions, Why: s.Why, By: s.By,
		})
	}
	for _, x := range slices.Backward(r.Refused) {
		out.Refused = append(out.Refused, rollout.Refusal{
			Revision: rollout.ParseRevision(x.Module, x.Revision), Scope: rollout.Scope(x.Scope),
			Phase: rollout.Phase(x.Phase), Reason: x.Reason, Message: x.Message, Stands: x.Stands,
		})
	}
	if errors.Is(err, status.ErrDamaged) || apierrors.IsForbidden(err) {
		err = fmt.Errorf("%w: %w", rollout.ErrNoRecord, err)
	}
	return out, err
}

// Bundle implements rollout.Journal.
func (j journal) Bundle(ctx context.Context, revision string) (*source.Bundle, error) {
	return j.object.Bundle(ctx, revision)
}

// Save implements rollout.Journal. A bundle that is too large is not tried again.
func (j journal) Save(ctx context.Context, r rollout.Record, bundles []source.Bundle) error {
	err := j.object.Save(ctx, j.recordOf(r), bundles)
	if errors.Is(err, status.ErrTooLarge) {
		return fmt.Errorf("%w: %w", rollout.ErrNotKept, err)
	}
	return err
}

// recordOf puts the newest refusals first.
func (j journal) recordOf(r rollout.Record) status.Record {
	out := status.Record{Generation: r.Generation, Paused: r.Paused, Held: r.Held}
	for _, s := range r.Saved {
		out.Saved = append(out.Saved, status.Saved{Version: status.Version(s.Version), Kept: s.Kept})
	}
	for _, s := range r.History {
		out.History = append(out.History, status.Served{
			Version: status.Version(s.Version), Generation: s.Generation, Offered: s.Offered, From: s.From, Until: s.Until, Kept: s.Kept,
			Calls: s.Calls, Failures: s.Failures, Questions: s.Questions, Why: j.scrub(s.Why), By: s.By,
		})
	}
	for _, x := range slices.Backward(r.Refused) {
		out.Refused = append(out.Refused, status.Refusal{
			Revision: x.Revision.String(), Scope: string(x.Scope), Module: x.Revision.Module,
			Phase: string(x.Phase), Reason: x.Reason, Message: j.scrub(x.Message), Stands: x.Stands,
		})
	}
	return out
}
