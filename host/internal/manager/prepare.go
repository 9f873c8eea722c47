package manager

import (
	"context"
	"errors"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// prepare is common to the loaders of providers and of signers. It loads
// exactly the module that was checked.
func prepare(ctx context.Context, l *plugin.Loader, bundle source.Bundle, check func(module []byte) error, reached func(rollout.Phase)) (*plugin.Generation, error) {
	var g *plugin.Generation
	err := bundle.View(func(module []byte) (err error) {
		if err := check(module); err != nil {
			return provenanceError(err)
		}
		g, err = l.Prepare(ctx, plugin.Bundle{Module: module, Config: bundle.Config}, func(phase string) { reached(rollout.PhaseOf(phase)) })
		return err
	})
	return g, err
}

func provenanceError(err error) error {
	reason := module.ReasonModuleInvalid
	var e *provenance.Error
	if errors.As(err, &e) {
		reason = e.Reason
	}
	return &plugin.LoadError{Phase: plugin.PhaseVerify, Reason: reason, Err: err}
}
