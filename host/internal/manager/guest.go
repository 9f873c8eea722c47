package manager

import (
	"sync/atomic"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/kubecache"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/shadow"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
)

// providerGuest is what is loaded of a provider, and what serves.
type providerGuest struct {
	slot     *plugin.Slot
	recorder *shadow.Recorder
	loader   *providerLoader
	// generation counts the takeovers.
	generation atomic.Int64
}

// maxShadowSamples bounds shadowSamples of the HostConfiguration.
const maxShadowSamples = 1000

// newProviderGuest owns the network of the terms.
func newProviderGuest(s *shared, b *base, a *providerAccess, t terms) *providerGuest {
	recorder := shadow.NewRecorder(shadow.Options{MaxSamples: maxShadowSamples})
	return &providerGuest{recorder: recorder, slot: plugin.NewRecordedSlot(recorder), loader: newLoader(s, b, a, t)}
}

func newLoader(s *shared, b *base, a *providerAccess, t terms) *providerLoader {
	flags := s.completed.ComponentConfig.KubeCloudShared
	return &providerLoader{
		current: t, tasks: &b.living,
		loader: plugin.Loader{
			Compiler:         s.modules.compiler(b.name),
			ClusterName:      flags.ClusterName,
			HostVersion:      version.Release(),
			RequireClusterID: !flags.AllowUntaggedCloud,
			Observer:         b.metrics,
		},
		hosts: &hosts{
			logger: b.logger, events: b.events, client: b.client, allowed: a.allowed, rates: a.rates,
			namespace: s.storeNamespace, metrics: b.metrics,
			clients: kubecache.Clients{Nodes: s.controller(nodeController), Services: s.controller(serviceController)},
		},
	}
}

func (g *providerGuest) change(before *v1alpha1.Provider, t terms) {
	if !sameRights(before, t.config) {
		g.recorder.Reset() // Invariant G3 (host/SECURITY.md): a replay answers from it, and asks no grant.
	}
	g.loader.set(t).release()
}
