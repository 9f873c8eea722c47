package manager

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
)

// journal keeps the record of a rollout in the provider's ConfigMap. It is a
// rollout.Journal.
type journal struct {
	object *status.Object
	// scrub replaces secrets in what a guest said: the record is read by more
	// people than Secrets are.
	scrub func(string) string
}

// Load is rollout.Journal's.
func (j journal) Load(ctx context.Context) (rollout.Record, *source.Bundle, error) {
	r, bundle, err := j.object.Load(ctx)
	out := rollout.Record{Good: (*rollout.Version)(r.Good), Generation: r.Generation, Paused: r.Paused}
	for _, x := range r.Refused {
		out.Refused = append([]rollout.Refusal{{
			Revision: rollout.ParseRevision(x.Module, x.Revision), Scope: rollout.Scope(x.Scope),
			Phase: rollout.Phase(x.Phase), Reason: x.Reason, Message: x.Message,
		}}, out.Refused...)
	}
	if errors.Is(err, status.ErrDamaged) || apierrors.IsForbidden(err) {
		err = fmt.Errorf("%w: %w", rollout.ErrNoRecord, err)
	}
	return out, bundle, err
}

// Save is rollout.Journal's.
func (j journal) Save(ctx context.Context, r rollout.Record) error {
	return j.object.SaveRecord(ctx, j.recordOf(r))
}

// Keep is rollout.Journal's. A bundle that is too large to be kept is not tried
// again: what it stands for is saved without it.
func (j journal) Keep(ctx context.Context, bundle source.Bundle, r rollout.Record) error {
	err := j.object.Keep(ctx, bundle, j.recordOf(r))
	if !errors.Is(err, status.ErrTooLarge) {
		return err
	}
	if err := j.object.SaveRecord(ctx, j.recordOf(r)); err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", rollout.ErrNotKept, err)
}

// recordOf puts the newest refusals first.
func (j journal) recordOf(r rollout.Record) status.Record {
	out := status.Record{Good: (*status.Version)(r.Good), Generation: r.Generation, Paused: r.Paused}
	for _, x := range r.Refused {
		out.Refused = append([]status.Refusal{{
			Revision: x.Revision.String(), Scope: string(x.Scope), Module: x.Revision.Module,
			Phase: string(x.Phase), Reason: x.Reason, Message: j.scrub(x.Message),
		}}, out.Refused...)
	}
	return out
}
