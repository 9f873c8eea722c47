package manager

import (
	"context"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/hostfunc"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/calls"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

// providerAccess is what a provider may reach, by the present grants.
type providerAccess struct {
	engines  func(name string) (engine.Engine, error)
	allowed  *allowed
	networks *networkBuilder
	rates    *hostfunc.Rates
	// calls are the latest requests to its cloud.
	calls *calls.Log
	// renewed signals that there are other Secrets to watch.
	renewed chan struct{}
}

// newProviderAccess starts only the watches of the network's Secrets and
// signers. The terms own the network.
func newProviderAccess(ctx context.Context, s *shared, b *base, p *v1alpha1.Provider) (*providerAccess, terms, error) {
	a := &providerAccess{
		engines: s.modules.engine, allowed: &allowed{}, rates: hostfunc.NewRates(rateLimits(p.Limits)), calls: calls.New(), renewed: make(chan struct{}, 1),
	}
	a.networks = newNetworkBuilder(s, b, a.allowed, a.calls)
	t, err := a.terms(ctx, p)
	if err == nil {
		a.allowed.current.Store(t.network)
	}
	return a, t, err
}

// terms builds the terms of a configuration, with a network of their own.
func (a *providerAccess) terms(ctx context.Context, p *v1alpha1.Provider) (terms, error) {
	network, err := a.networks.build(p)
	if err != nil {
		return terms{}, err
	}
	t, err := newTerms(ctx, a.engines, p, network)
	if err != nil {
		network.release()
	}
	return t, err
}

func (a *providerAccess) change(_ *v1alpha1.Provider, t terms) {
	a.rates.Set(rateLimits(t.config.Limits))
	t.network.Client.Enforce()
	a.allowed.current.Store(t.network)
	poke(a.renewed)
}

// poke leaves a signal, unless one is pending.
func poke(signal chan<- struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}
