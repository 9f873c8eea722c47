package manager

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/grant"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// providerLoader makes generations of one provider, each with what the
// configuration says when it is loaded. It is a rollout.Loader.
type providerLoader struct {
	loader plugin.Loader // without limits, grants and host
	hosts  *hosts
	tasks  *tasks.Group // that wait for the end of generations

	mu      sync.Mutex
	current terms
	closed  bool
	// loaded are the generations that have not ended.
	loaded map[*plugin.Generation]*belongings
}

// belongings are what a generation has beside its instances.
type belongings struct {
	network *network
	// hushed: what the guest prints is dropped.
	hushed atomic.Bool
}

// terms are those on which a generation is loaded.
type terms struct {
	config     *v1alpha1.Provider
	network    *network
	provenance *provenance.Policy
	addresses  *addresses.Policy
	revision   string
}

// secretsTimeout bounds how long Secrets are waited for. They are there, or
// known to be missing, as soon as the API server has answered.
const secretsTimeout = 10 * time.Second

func newTerms(ctx context.Context, p *v1alpha1.Provider, n *network) (terms, error) {
	policy, err := provenance.New(p.Provenance.Digests, p.Provenance.PublicKeys)
	if err != nil {
		return terms{}, fmt.Errorf("provider %s: provenance: %w", p.Name, err)
	}
	steering, err := addresses.New(p.Addresses.Allow, p.Addresses.Deny)
	if err != nil {
		return terms{}, fmt.Errorf("provider %s: addresses.%w", p.Name, err)
	}
	revision, err := revisionOf(p)
	if err != nil {
		return terms{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, secretsTimeout)
	defer cancel()
	revision += "." + n.secrets.Version(ctx)
	return terms{config: p, network: n, provenance: policy, addresses: steering, revision: revision}, nil
}

// revisionOf names all of a provider's configuration that makes a difference to
// a generation.
func revisionOf(p *v1alpha1.Provider) (string, error) {
	c := *p
	c.Rollout, c.Routing, c.Source = v1alpha1.Rollout{}, v1alpha1.Routing{}, v1alpha1.Source{}
	c.Addresses = v1alpha1.Addresses{} // in force at once, for whatever serves
	data, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("provider %s: %w", p.Name, err)
	}
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:6]), nil
}

// set changes the terms. The network belongs to the loader until the next set,
// or close; the one that is returned is the caller's.
func (l *providerLoader) set(t terms) (before *network) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return t.network
	}
	before, l.current = l.current.network, t
	return before
}

// close lets go of the network. Nothing is loaded any more.
func (l *providerLoader) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		l.current.network.release()
	}
}

// take returns the terms, with one more user of their network.
func (l *providerLoader) take() terms {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current.network.retain()
	return l.current
}

// config is the configuration that holds now.
func (l *providerLoader) config() *v1alpha1.Provider {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current.config
}

// Revision is rollout.Loader's.
func (l *providerLoader) Revision() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current.revision
}

// Prepare is rollout.Loader's.
func (l *providerLoader) Prepare(ctx context.Context, bundle source.Bundle, reached func(rollout.Phase)) (*plugin.Generation, error) {
	t := l.take()
	b := &belongings{network: t.network}
	g, err := l.prepare(ctx, t, b, bundle, reached)
	if err != nil {
		t.network.release()
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.loaded == nil {
		l.loaded = map[*plugin.Generation]*belongings{}
	}
	l.loaded[g] = b
	l.tasks.Go("a generation", func() { l.forget(g, t.network) })
	return g, nil
}

// hush drops what a generation prints until the returned function is called.
func (l *providerLoader) hush(g *plugin.Generation) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.loaded[g]
	if b == nil {
		return func() {}
	}
	b.hushed.Store(true)
	return func() { b.hushed.Store(false) }
}

// printer returns w as the output of a guest that can be hushed.
func (b *belongings) printer(w io.Writer) io.Writer { return hushable{w, &b.hushed} }

type hushable struct {
	io.Writer
	hushed *atomic.Bool
}

// Write is io.Writer's.
func (h hushable) Write(p []byte) (int, error) {
	if h.hushed.Load() {
		return len(p), nil
	}
	return h.Writer.Write(p)
}

// forget lets go of a generation's network when the generation has ended.
func (l *providerLoader) forget(g *plugin.Generation, n *network) {
	<-g.Closed()
	n.release()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.loaded, g)
}

// proved tells that a generation serves, so that its Secrets are right: those
// before it, which may serve again, use the same from now on.
func (l *providerLoader) proved(g *plugin.Generation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.loaded[g]
	for _, b := range l.loaded {
		if now != nil && b.network.number < now.network.number {
			b.network.secrets.Follow()
		}
	}
}

func (l *providerLoader) prepare(ctx context.Context, t terms, b *belongings, bundle source.Bundle, reached func(rollout.Phase)) (*plugin.Generation, error) {
	// Invariant R3 (host/SECURITY.md): every way to a generation goes through here, that of a
	// restart as well.
	if err := t.provenance.Check(bundle.Module, bundle.Signature); err != nil {
		return nil, provenanceError(err)
	}
	loader := grant.Loader(l.loader, t.config)
	loader.NewHost = func(m *manifest.Manifest) (engine.Host, io.Writer, io.Writer) {
		host, stdout, stderr := l.hosts.host(m, t.network, storeOf(t.config, m))
		return host, b.printer(stdout), b.printer(stderr)
	}
	// Invariant S6 (host/SECURITY.md): what a guest wrote before it crashed is scrubbed, too.
	loader.Scrub = l.hosts.allowed.scrub
	return prepare(ctx, loader, bundle, reached)
}

// prepare is what loaders of providers and of signers have in common.
func prepare(ctx context.Context, l *plugin.Loader, bundle source.Bundle, reached func(rollout.Phase)) (*plugin.Generation, error) {
	return l.Prepare(ctx, plugin.Bundle{Module: bundle.Module, Config: bundle.Config}, func(phase string) { reached(rollout.PhaseOf(phase)) })
}

func provenanceError(err error) error {
	reason := module.ReasonModuleInvalid
	var e *provenance.Error
	if errors.As(err, &e) {
		reason = e.Reason
	}
	return &plugin.LoadError{Phase: plugin.PhaseVerify, Reason: reason, Err: err}
}

// storeOf names the store. Only a single provider may leave it to its module:
// the HostConfiguration names those of several.
func storeOf(p *v1alpha1.Provider, m *manifest.Manifest) string {
	if p.Store != "" {
		return p.Store
	}
	return m.Name
}

// longestOp is the time of the op that may take longest.
func longestOp(p *v1alpha1.Provider) time.Duration {
	longest := p.Ops.Timeout.Duration
	for _, timeout := range p.Ops.Timeouts {
		longest = max(longest, timeout.Duration)
	}
	return longest
}

// policy is what the configuration says of rollouts.
func policy(r v1alpha1.Rollout) rollout.Policy {
	return rollout.Policy{
		Modes:         rollout.Modes{Probe: rollout.Mode(r.Probe), Shadow: rollout.Mode(r.Shadow), Observe: rollout.Mode(r.Observe)},
		ObservePeriod: r.ObservePeriod.Duration,
		Budget:        rollout.Budget{Failures: *r.ErrorBudget.Failures, Percent: *r.ErrorBudget.Percent},
	}
}
