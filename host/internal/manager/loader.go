package manager

import (
	"context"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/grant"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// providerLoader loads generations of one provider, each with the configuration
// of that moment. It is a rollout.Loader.
type providerLoader struct {
	loader plugin.Loader // without engine, limits, grants and host
	hosts  *hosts
	tasks  *tasks.Group // that wait for the end of generations

	mu      sync.Mutex
	current terms
	closed  bool
	// loaded are the generations that have not ended; loading those that are being loaded.
	loaded  map[*plugin.Generation]*belongings
	loading []*belongings
}

// belongings are a generation's resources beside its instances.
type belongings struct {
	network *network
	store   string // guarded by the loader's mutex; "" until the module has named it
	bundle  source.Bundle
	// judged is the provenance of the last call of admits, and refusal its
	// result; only the reporter uses them.
	judged  *provenance.Policy
	refusal error
	// hushed: the guest's output is dropped.
	hushed atomic.Bool
}

// set replaces the terms. The network belongs to the loader until the next set
// or close; the returned one belongs to the caller.
func (l *providerLoader) set(t terms) (before *network) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return t.network
	}
	before, l.current = l.current.network, t
	return before
}

// close releases the network. Nothing is loaded afterwards.
func (l *providerLoader) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && l.current.network != nil {
		l.current.network.release()
	}
	l.closed = true
}

// take returns the terms, with one more user of their network, for a generation
// that is being loaded until done.
func (l *providerLoader) take() (t terms, b *belongings, done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current.network.retain()
	b = &belongings{network: l.current.network, store: l.current.config.Store}
	// Invariant P4 (host/SECURITY.md): its store is not free from now on.
	l.loading = append(l.loading, b)
	return l.current, b, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.loading = slices.DeleteFunc(l.loading, func(one *belongings) bool { return one == b })
	}
}

// config is the present configuration.
func (l *providerLoader) config() *v1alpha1.Provider {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current.config
}

// policy is the present provenance.
func (l *providerLoader) policy() *provenance.Policy {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current.provenance
}

// Revision implements rollout.Loader.
func (l *providerLoader) Revision() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current.revision
}

// Prepare implements rollout.Loader.
func (l *providerLoader) Prepare(ctx context.Context, bundle source.Bundle, reached func(rollout.Phase)) (*plugin.Generation, error) {
	t, b, done := l.take()
	defer done()
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
	b.bundle = bundle
	l.loaded[g] = b
	l.tasks.Go("a generation", func() { l.forget(g, t.network) })
	return g, nil
}

// hush drops a generation's output until end is called.
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

// Write implements io.Writer.
func (h hushable) Write(p []byte) (int, error) {
	if h.hushed.Load() {
		return len(p), nil
	}
	return h.Writer.Write(p)
}

// mayHold reports whether the provider or one of its generations may have a store; an
// empty name, which a single provider's module chooses, stands for any.
func (l *providerLoader) mayHold(store string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if store == "" || l.current.config.Store == store {
		return true
	}
	for _, b := range l.loaded {
		if b.store == store {
			return true
		}
	}
	return slices.ContainsFunc(l.loading, func(b *belongings) bool { return b.store == "" || b.store == store })
}

// forget releases a generation's network when the generation has ended.
func (l *providerLoader) forget(g *plugin.Generation, n *network) {
	<-g.Closed()
	n.release()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.loaded, g)
}

// proved records that a generation serves, so its Secrets are valid: earlier
// generations, which may serve again, use the same Secrets from now on.
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

// admits returns why the current provenance would not admit a generation, or
// nil. It reads the module once per provenance: every report calls it, and none
// may take long. It is for one goroutine.
func (l *providerLoader) admits(g *plugin.Generation) error {
	l.mu.Lock()
	policy, b := l.current.provenance, l.loaded[g]
	l.mu.Unlock()
	if b == nil || policy == nil {
		return nil
	}
	if b.judged != policy {
		b.judged, b.refusal = policy, b.bundle.View(func(module []byte) error { return policy.Check(module, b.bundle.Signature) })
	}
	return b.refusal
}

func (l *providerLoader) prepare(ctx context.Context, t terms, b *belongings, bundle source.Bundle, reached func(rollout.Phase)) (*plugin.Generation, error) {
	// Invariant R3 (host/SECURITY.md): every way to a generation goes through here, that of a
	// restart as well.
	check := func(module []byte) error { return t.provenance.Check(module, bundle.Signature) }
	loader := grant.Loader(l.loader, t.config)
	loader.Engine = t.engine
	loader.NewHost = func(m *manifest.Manifest) (engine.Host, io.Writer, io.Writer) {
		store := storeOf(t.config, m)
		l.mu.Lock()
		b.store = store
		l.mu.Unlock()
		host, stdout, stderr := l.hosts.host(m, t.network, store)
		return host, b.printer(stdout), b.printer(stderr)
	}
	// Invariant S6 (host/SECURITY.md): a guest's output before a crash is scrubbed, too.
	loader.Scrub = l.hosts.allowed.scrub
	return prepare(ctx, loader, bundle, check, reached)
}

// storeOf returns the store's name. Only a single provider may leave it to its
// module: with several the HostConfiguration names the stores.
func storeOf(p *v1alpha1.Provider, m *manifest.Manifest) string {
	if p.Store != "" {
		return p.Store
	}
	return m.Name
}
