// Package rollout takes what a source offers (a module and its configuration),
// has it verified, compiled, described, configured and probed, and swaps it in
// when all of that went well. Anything else changes nothing but what is
// reported: the generation before goes on serving.
//
// It imports plugin and source.
package rollout

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/source"
)

// Times between two tries with a bundle whose failure may pass by itself, for
// example because the cloud did not answer the probe.
const (
	retryMin = 2 * time.Second
	retryMax = 2 * time.Minute
)

// Loader makes a generation of a bundle; *plugin.Loader is one.
type Loader interface {
	Load(ctx context.Context, bundle plugin.Bundle) (*plugin.Generation, error)
}

// Reporter hears of every outcome. Its methods do not block.
type Reporter interface {
	// Serving is called after a generation has been swapped in.
	Serving(bundle source.Bundle, generation *plugin.Generation)
	// Rejected is called when the bundle, or what the source holds instead of
	// one, is not fit to serve. Reason is CamelCase, as in Events.
	Rejected(bundle source.Bundle, reason string, err error)
}

// Rollout brings what the source offers into the slot. Run must be called once.
type Rollout struct {
	loader   Loader
	slot     *plugin.Slot
	reporter Reporter
	offers   chan offer
	reloads  chan struct{}
	clock    clock.Clock
}

type offer struct {
	bundle source.Bundle
	err    error
}

// New returns a rollout into slot.
func New(loader Loader, slot *plugin.Slot, reporter Reporter, clock clock.Clock) *Rollout {
	return &Rollout{
		loader: loader, slot: slot, reporter: reporter, clock: clock,
		offers: make(chan offer, 1), reloads: make(chan struct{}, 1),
	}
}

// Reload has the last offer loaded again although it is the same, since what
// the administrator allows it has changed. It never blocks, and may be called
// from anywhere.
func (r *Rollout) Reload() {
	select {
	case r.reloads <- struct{}{}:
	default: // one that is yet to come does it
	}
}

// Offer hands over what the source holds now. A newer offer replaces one that
// nobody has begun with. It never blocks; only one goroutine may call it.
func (r *Rollout) Offer(bundle source.Bundle, err error) {
	select {
	case <-r.offers:
	default:
	}
	r.offers <- offer{bundle, err}
}

// Run works on offers until the context ends.
func (r *Rollout) Run(ctx context.Context) {
	const only = "bundle"
	backoff := flowcontrol.NewBackOff(retryMin, retryMax)
	var current offer
	var retry <-chan time.Time
	offered, reload := false, false
	for {
		select {
		case <-ctx.Done():
			return
		case current = <-r.offers:
			offered = true
			backoff.DeleteEntry(only)
		case <-r.reloads:
			if !offered {
				continue // the first offer is loaded with what holds then
			}
			reload = true
		case <-retry:
		}
		retry = nil
		again := r.try(ctx, current, reload)
		if reload = reload && again; again {
			backoff.Next(only, r.clock.Now())
			retry = r.clock.After(backoff.Get(only))
		}
	}
}

// try brings one offer as far as it goes and reports whether to try it again.
// A reload loads also what serves already.
func (r *Rollout) try(ctx context.Context, o offer, reload bool) (again bool) {
	if o.err != nil {
		r.reporter.Rejected(o.bundle, sourceReason(o.err), o.err)
		return false
	}
	bundle := plugin.Bundle{Module: o.bundle.Module, Config: o.bundle.Config}
	if serving := r.slot.Serving(); !reload && serving != nil && serving.Digests() == bundle.Digests() {
		// The source went from good to bad and back: nothing to swap, but what
		// was reported of the bad one is over.
		r.reporter.Serving(o.bundle, serving)
		return false
	}
	generation, err := r.loader.Load(ctx, bundle)
	if err != nil {
		reason, temporary := loadReason(err)
		r.reporter.Rejected(o.bundle, reason, err)
		return temporary && ctx.Err() == nil
	}
	r.slot.Swap(ctx, generation)
	r.reporter.Serving(o.bundle, generation)
	return false
}

func sourceReason(err error) string {
	var e *source.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return "SourceFailed"
}

// loadReason tells why a bundle was not fit, and whether that may pass without
// a change of the bundle: only what asks the cloud can.
func loadReason(err error) (reason string, temporary bool) {
	var e *plugin.LoadError
	if !errors.As(err, &e) {
		return "LoadFailed", true
	}
	return e.Reason, e.Phase == plugin.PhaseProbe
}
