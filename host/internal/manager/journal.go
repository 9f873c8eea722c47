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
	if errors.Is(err, status.ErrDamaged) || apierrors.IsForbidden(err) {
		err = fmt.Errorf("%w: %w", rollout.ErrNoRecord, err)
	}
	return r, err
}

// Bundle implements rollout.Journal.
func (j journal) Bundle(ctx context.Context, revision string) (*source.Bundle, error) {
	return j.object.Bundle(ctx, revision)
}

// Save implements rollout.Journal. A bundle that is too large is not tried again.
func (j journal) Save(ctx context.Context, r rollout.Record, bundles []source.Bundle) error {
	r.History, r.Refused = slices.Clone(r.History), slices.Clone(r.Refused)
	for i := range r.History {
		r.History[i].Why = j.scrub(r.History[i].Why)
	}
	for i := range r.Refused {
		r.Refused[i].Message = j.scrub(r.Refused[i].Message)
	}
	err := j.object.Save(ctx, r, bundles)
	if errors.Is(err, status.ErrTooLarge) {
		return fmt.Errorf("%w: %w", rollout.ErrNotKept, err)
	}
	return err
}
