package manager

import (
	"context"
	"sync/atomic"

	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
)

// providerRollout is how the modules of a provider come and are told of.
type providerRollout struct {
	reporter *providerReporter
	rollout  *rollout.Rollout
	// sources has the next source, which replaces the previous one.
	sources chan source.Source
	// trust signals to the source that other modules may pass.
	trust chan struct{}
	// leading: the control loops run in this manager.
	leading atomic.Bool
}

// newProviderRollout passes the status of the provider to told, too.
func newProviderRollout(s *shared, b *base, a *providerAccess, g *providerGuest, c *providerCloud, told func(status.Status)) *providerRollout {
	r := &providerRollout{reporter: newProviderReporter(b, a, g, c, told), sources: make(chan source.Source, 1), trust: make(chan struct{}, 1)}
	r.rollout = rollout.New(rollout.Options{
		Slot: g.slot, Loader: g.loader, Clock: clock.RealClock{},
		Policy:   func() rollout.Policy { return rolloutPolicy(g.loader.config().Rollout) },
		Journal:  journal{b.status, a.allowed.scrub},
		Trials:   b.book.Of(""),
		Examiner: newExaminer(s, b, g, c.steering.policy, r.leading.Load),
		Reporter: r.reporter,
	})
	return r
}

// newProviderReporter passes the status to told, too.
func newProviderReporter(b *base, a *providerAccess, g *providerGuest, c *providerCloud, told func(status.Status)) *providerReporter {
	return &providerReporter{
		teller:   teller{logger: b.logger, events: b.events, scrub: a.allowed.scrub, object: b.object},
		provider: b.name, metrics: b.metrics.Rollout(), status: &statusWriter{object: b.status, told: told},
		generation: &g.generation,
		replaced: func() {
			g.loader.proved(g.slot.Serving())
			c.replaced()
			g.recorder.Reset()
			c.changes.tell() // again: the loops' last calls may have been answered from earlier knowledge
		},
		reconfigured: c.configured.tell,
		configured:   g.slot.ConfigDigest,
		admits:       func() error { return g.loader.admits(g.slot.Serving()) },
	}
}

func newExaminer(s *shared, b *base, g *providerGuest, policy func() *addresses.Policy, leads func() bool) *examiner {
	return &examiner{
		recorder: g.recorder, metrics: b.metrics.Rollout(), slot: g.slot,
		objects: ownObjects{s.completed.SharedInformers.Core().V1(), s.router, b.name}.watch(),
		policy:  policy, cluster: g.loader.loader.ClusterName,
		samples: func() int { return g.loader.config().Rollout.ShadowSamples },
		leads:   leads, hush: g.loader.hush,
	}
}

// newSource builds the source of a configuration.
func (r *providerRollout) newSource(s *shared, b *base, l *providerLoader, p *v1alpha1.Provider) (source.Source, error) {
	limits := source.Limits{MaxModule: p.Limits.Module.Value(), ModuleSetting: "providers[].limits.module of the HostConfiguration", Store: s.modules.store}
	src, err := newSource(b.client, p.Source, limits, images{reached: r.reporter.reached, policy: l.policy, renewed: r.trust, pulls: b.book.Pulls()})
	if err != nil {
		return nil, err
	}
	if file := s.configFile(); file != "" {
		src = source.WithConfigFile(src, file, limits, source.Watching{})
	}
	if p.ConfigFrom != nil {
		src = source.WithConfigFrom(src, b.client, configKey(p.ConfigFrom), limits)
	}
	return src, nil
}

// followSources watches one source after the other until the context ends. A
// module of the previous source serves until an offer of the next one passes.
func (r *providerRollout) followSources(ctx context.Context) {
	next := <-r.sources
	for next != nil {
		now := next
		watching, cancel := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			now.Run(watching, r.rollout.Offer)
		}()
		select {
		case next = <-r.sources:
		case <-ctx.Done():
			next = nil
		}
		cancel()
		<-ended
		r.reporter.sourceReplaced()
	}
}

// setSource is called by one goroutine at a time.
func (r *providerRollout) setSource(src source.Source) {
	select {
	case <-r.sources: // the pending source was never started
	default:
	}
	r.sources <- src
}

// change is called when new terms are in force. With another source their
// generation is that source's offer.
func (r *providerRollout) change(src source.Source) {
	if src != nil {
		r.setSource(src)
	} else {
		r.rollout.Reload()
	}
	poke(r.trust)
}
