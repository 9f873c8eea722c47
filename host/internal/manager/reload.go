package manager

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
)

// reloader takes up changes of the file of --config. A file that is not valid
// changes nothing.
type reloader struct {
	manager *manager
	current *v1alpha1.HostConfiguration
}

// run watches the file until the context ends.
func (r *reloader) run(ctx context.Context, path string) {
	first := true
	r.manager.outside.watchFile(ctx, path, func(data []byte, err error) {
		// What it holds now may be newer than what the manager began with.
		known := first && err == nil && r.unchanged(data)
		if known {
			r.tell(nil)
		}
		first = false
		if !known {
			r.offer(ctx, path, data, err)
		}
	})
}

func (r *reloader) unchanged(data []byte) bool {
	next, err := v1alpha1.Decode(data)
	return err == nil && equality.Semantic.DeepEqual(next, r.current)
}

func (r *reloader) offer(ctx context.Context, path string, data []byte, err error) {
	logger := klog.FromContext(ctx)
	if err == nil {
		err = r.take(ctx, data)
	}
	r.manager.metrics.ConfigRejected(err != nil)
	r.tell(err)
	if err != nil {
		logger.Error(err, "The changed configuration is rejected; what it said before holds", "config", path)
		return
	}
	logger.Info("The changed configuration is in force", "config", path)
}

// tell says at each provider what became of the file: nobody looks at another
// one's, and the file is everybody's.
func (r *reloader) tell(err error) {
	for _, one := range r.manager.providers {
		one.reporter.configuration(err)
	}
}

func (r *reloader) take(ctx context.Context, data []byte) error {
	next, err := v1alpha1.Decode(data)
	if err != nil {
		return err
	}
	if err := fixed(r.current, next); err != nil {
		return err
	}
	// Invariant R2 (host/SECURITY.md): everything of a changed file is made before anything of it
	// is in force.
	all := make([]terms, len(next.Providers))
	for i := range next.Providers {
		if all[i], err = r.manager.providers[i].next(ctx, &next.Providers[i], &r.current.Providers[i]); err != nil {
			giveUp(all)
			return err
		}
	}
	taken, err := r.turns(ctx, all)
	defer taken()
	if err != nil {
		giveUp(all)
		return err
	}
	for i, one := range r.manager.providers {
		one.brake.SetLimits(brakeLimits(next.DeletionBrake))
		if all[i].network != nil {
			one.change(all[i])
		}
	}
	r.current = next
	return nil
}

// turns lets nobody else change the terms of the providers that get others,
// until leave is called: a file is in force as a whole. Whom it leaves alone it
// does not wait for: that one's Secrets and signers may take long.
func (r *reloader) turns(ctx context.Context, all []terms) (leave func(), err error) {
	var taken []tasks.Turn
	leave = func() {
		for _, t := range taken {
			t.Leave()
		}
	}
	for i, one := range r.manager.providers {
		if all[i].network == nil {
			continue
		}
		if err := one.changing.Take(ctx); err != nil {
			return leave, err
		}
		taken = append(taken, one.changing)
	}
	return leave, nil
}

// giveUp closes what was made for a file that is rejected.
func giveUp(all []terms) {
	for _, t := range all {
		if t.network != nil {
			t.network.release()
		}
	}
}

// next makes the terms of a changed configuration; without a network when
// nothing has changed.
func (m *managed) next(ctx context.Context, p, before *v1alpha1.Provider) (terms, error) {
	if equality.Semantic.DeepEqual(p, before) {
		return terms{}, nil
	}
	return m.terms(ctx, p)
}

// terms makes those of a configuration, when its signers serve.
func (m *managed) terms(ctx context.Context, p *v1alpha1.Provider) (terms, error) {
	network, err := m.networks.build(p)
	if err != nil {
		return terms{}, err
	}
	t, err := newTerms(ctx, p, network)
	if err == nil {
		err = network.ready(ctx)
	}
	if err != nil {
		network.release()
		return terms{}, err
	}
	return t, nil
}

// change takes new terms into force: what they take away at once, what they
// add with a new generation.
func (m *managed) change(t terms) {
	m.rates.Set(rateLimits(t.config.Limits))
	t.network.client.Enforce()
	m.allowed.current.Store(t.network)
	m.steering.set(t.addresses)
	m.reporter.idle(m.steering.idle())
	m.listing.Reset() // it has what was accepted before
	m.changes.tell()
	m.loader.set(t).release()
	m.rollout.Reload()
	select {
	case m.renewed <- struct{}{}:
	default: // followSecrets has yet to look
	}
}

// fixed refuses changes that need a restart. Better to say so than to take up
// one half of a file.
func fixed(before, after *v1alpha1.HostConfiguration) error {
	if len(before.Providers) != len(after.Providers) {
		return restart("providers")
	}
	for i := range before.Providers {
		if field := fixedField(&before.Providers[i], &after.Providers[i]); field != "" {
			return restart(fmt.Sprintf("providers[%d].%s", i, field))
		}
	}
	return nil
}

func fixedField(old, next *v1alpha1.Provider) string {
	switch {
	case old.Name != next.Name:
		return "name"
	case !equality.Semantic.DeepEqual(old.Source, next.Source):
		return "source"
	case old.Limits.Module.Cmp(next.Limits.Module) != 0:
		return "limits.module"
	case !equality.Semantic.DeepEqual(old.Ops, next.Ops):
		return "ops"
	case old.Store != next.Store:
		return "store"
	case !equality.Semantic.DeepEqual(old.Routing, next.Routing):
		return "routing"
	}
	return ""
}

// errRestart is of a file that is valid, and needs another process.
var errRestart = errors.New("cannot change while the manager runs: restart it, or change it back")

func restart(path string) error { return fmt.Errorf("%s %w", path, errRestart) }
