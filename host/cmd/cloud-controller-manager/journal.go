package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/wasm-ccm/wasm-ccm/host/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/source"
	"github.com/wasm-ccm/wasm-ccm/host/status"
)

// journal keeps the record of a rollout in the provider's ConfigMap. It is a
// rollout.Journal.
type journal struct {
	object *status.Object
	// revision is that of the configuration, by which a bundle becomes a
	// generation. That of the time when a bundle was kept is gone after a
	// restart, so only the bundle's own part of a revision is recorded.
	revision func() string
	// scrub replaces secrets in what a guest said: the record is read by more
	// people than Secrets are.
	scrub func(string) string
}

// Load is rollout.Journal's.
func (j journal) Load(ctx context.Context) (rollout.Record, *source.Bundle, error) {
	r, bundle, err := j.object.Load(ctx)
	out := rollout.Record{Generation: r.Generation, Paused: r.Paused}
	if r.Good != nil {
		good := rollout.Version(*r.Good)
		good.Revision = rollout.Revision(good.Revision, j.revision())
		out.Good = &good
	}
	for _, x := range r.Refused {
		out.Refused = append([]rollout.Refusal{{Revision: x.Revision, Phase: rollout.Phase(x.Phase), Reason: x.Reason, Message: x.Message}}, out.Refused...)
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
	out := status.Record{Generation: r.Generation, Paused: r.Paused}
	if r.Good != nil {
		good := status.Version(*r.Good)
		good.Revision, _, _ = strings.Cut(good.Revision, rollout.RevisionSeparator)
		out.Good = &good
	}
	for _, x := range r.Refused {
		out.Refused = append([]status.Refusal{{Revision: x.Revision, Phase: string(x.Phase), Reason: x.Reason, Message: j.scrub(x.Message)}}, out.Refused...)
	}
	return out
}
