package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/routing"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
)

// plan is the change from the present providers to those of another
// configuration.
type plan struct {
	*providerSet
	next    *v1alpha1.HostConfiguration
	rules   *routing.Next
	kept    []*keptProvider
	added   []*addedProvider
	removed []*managed
}

// keptProvider is for a provider that stays.
type keptProvider struct {
	one  *managed
	next *v1alpha1.Provider
	// terms have a network if anything of the provider changes.
	terms terms
	// source is a new source, or nil.
	source source.Source
	// rerouted: the provider gets other objects.
	rerouted bool
}

// addedProvider is a new provider.
type addedProvider struct {
	next *v1alpha1.Provider
	one  *managed
	// after are the providers whose end it awaits: one of them has its store.
	after []*managed
}

// apply puts a valid, defaulted configuration into force (validation.Decode; or
// SetDefaults and Validate). It returns when the configuration is in force as a
// whole, or with an error when nothing of it is; a notYet may be applied later
// unchanged. Removed providers may end later. Calls are serialised. Next must
// not be changed after the call.
func (s *providerSet) apply(ctx context.Context, next *v1alpha1.HostConfiguration) error {
	if err := s.changing.Take(ctx); err != nil {
		return notYet{err}
	}
	defer s.changing.Leave()
	plan, err := s.plan(next)
	if err != nil {
		return err
	}
	// Invariant R2 (host/SECURITY.md): everything of a changed file is made before anything of it
	// is in force.
	err = plan.make(ctx)
	if err == nil {
		err = plan.take(ctx)
	}
	if err != nil {
		plan.giveUp()
		return err
	}
	s.config = next
	return nil
}

// inForce returns the last applied configuration, which must not be changed.
func (s *providerSet) inForce(ctx context.Context) (*v1alpha1.HostConfiguration, error) {
	if err := s.changing.Take(ctx); err != nil {
		return nil, err
	}
	defer s.changing.Leave()
	return s.config, nil
}

// plan compares the configurations. An error says why a change cannot be, or not yet.
func (s *providerSet) plan(next *v1alpha1.HostConfiguration) (*plan, error) {
	if err := checkCloudConfig(s.shared.configFile(), next); err != nil {
		return nil, err
	}
	rules, err := s.shared.router.Next(rules(next))
	if err != nil {
		return nil, fmt.Errorf("providers[].routing: %w", err)
	}
	p := &plan{providerSet: s, next: next, rules: rules}
	gone := s.all()
	for i := range next.Providers {
		one := &next.Providers[i]
		at := slices.IndexFunc(gone, func(m *managed) bool { return m.name == one.Name })
		if at < 0 {
			p.added = append(p.added, &addedProvider{next: one})
			continue
		}
		p.kept = append(p.kept, &keptProvider{one: gone[at], next: one, rerouted: rules.Differs(one.Name)})
		gone = slices.Delete(gone, at, at+1)
	}
	p.removed = gone
	return p, p.possible()
}

// possible returns why a change must wait for another provider's name or store.
func (p *plan) possible() error {
	for _, a := range p.added {
		for _, one := range p.withEnding() {
			switch ends := p.ends(one); {
			case ends && one.name == a.next.Name:
				return later("providers: the removed provider %s has not ended yet: a call continues, or its status could not be written; its name becomes free then", one.name)
			case ends && a.next.Store == "", slices.Contains(p.removed, one) && (one.loader.config().Store == "" || one.loader.mayHold(a.next.Store)):
				a.after = append(a.after, one)
			case one.loader.mayHold(a.next.Store):
				return p.storeTaken(a.next, one)
			}
		}
	}
	for _, c := range p.kept {
		if c.next.Store == c.one.loader.config().Store {
			continue
		}
		for _, one := range p.withEnding() {
			if one != c.one && one.loader.mayHold(c.next.Store) {
				return p.storeTaken(c.next, one)
			}
		}
	}
	return nil
}

// ends reports whether a provider was, or is being, removed.
func (p *plan) ends(one *managed) bool {
	return slices.Contains(p.removed, one) || !slices.Contains(p.all(), one)
}

// storeTaken is the error about a store: no two providers may write into one, even briefly.
func (p *plan) storeTaken(next *v1alpha1.Provider, holder *managed) error {
	path := fmt.Sprintf("provider %s: the store %q", next.Name, next.Store)
	if now := holder.loader.config().Store; slices.Contains(p.all(), holder) && (now == "" || now == next.Store) {
		return fmt.Errorf("%s still belongs to provider %s: change the file in two steps; in the first give provider %s another one, or remove it", path, holder.name, holder.name)
	}
	return later("%s is still in use by provider %s: one of its generations, or the provider, has not ended", path, holder.name)
}

// make builds all new parts, and changes nothing.
func (p *plan) make(ctx context.Context) (err error) {
	for _, c := range p.kept {
		before := c.one.loader.config()
		if equality.Semantic.DeepEqual(c.next, before) {
			continue
		}
		if c.terms, err = c.one.terms(ctx, c.next); err != nil {
			return err
		}
		if differentSource(c.next, before) {
			if c.source, err = c.one.newSource(p.shared, c.one.base, c.one.loader, c.next); err != nil {
				return err
			}
		}
	}
	for _, a := range p.added {
		if a.one, err = newManaged(ctx, p.shared, p.lifetime, a.next, p.next.DeletionBrake, p.told(a.next.Name)); err != nil {
			return err
		}
	}
	return nil
}

func differentSource(next, before *v1alpha1.Provider) bool {
	return !equality.Semantic.DeepEqual(next.Source, before.Source) || !equality.Semantic.DeepEqual(next.ConfigFrom, before.ConfigFrom) ||
		next.Limits.Module.Cmp(before.Limits.Module) != 0
}

// giveUp releases the built parts.
func (p *plan) giveUp() {
	for _, c := range p.kept {
		if c.terms.network != nil {
			c.terms.network.release()
		}
	}
	for _, a := range p.added {
		if a.one != nil {
			a.one.loader.close()
			a.one.discard(p.lifetime)
		}
	}
}

// loopsTimeout bounds the wait for control loops to stop. A longer call only
// delays its own loops.
const loopsTimeout = 10 * time.Second

// take puts everything into force.
func (p *plan) take(ctx context.Context) error {
	leave, err := p.turns(ctx)
	defer leave()
	if err != nil {
		return notYet{err}
	}
	if err := p.adopt(ctx); err != nil { // most Services, while the loops still run
		return err
	}
	stopped := p.stopLoops(ctx)
	if err := p.adopt(ctx); err != nil {
		p.resumeLoops()
		return err
	}
	p.rules.Replace()
	looked := p.replace(p.order(), p.removed)
	for _, c := range p.kept {
		p.change(c)
	}
	for i, one := range p.removed {
		p.end(one, stopped[i])
	}
	for _, a := range p.added {
		p.begin(a.one, a.after, looked)
	}
	return nil
}

// stopLoops stops the control loops of removed providers, and of those that get other objects: a
// service loop deletes the load balancer of a Service that leaves it. It returns when they have
// stopped, or after loopsTimeout, with the channels that report the end of the removed ones.
func (p *plan) stopLoops(ctx context.Context) (stopped []<-chan struct{}) {
	// Invariant P6 (host/SECURITY.md): no loop sees an object leave its provider.
	for _, one := range p.removed {
		stopped = append(stopped, p.loops.Remove(one.name))
	}
	all := slices.Clone(stopped)
	for _, c := range p.kept {
		if c.rerouted {
			all = append(all, p.loops.Remove(c.one.name))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, loopsTimeout)
	defer cancel()
	for _, one := range all {
		select {
		case <-one:
		case <-ctx.Done():
		}
	}
	return stopped
}

// adoptTimeout bounds one attempt to label Services; completed ones are not repeated.
const adoptTimeout = 30 * time.Second

// adopt keeps the load balancers of a provider that had all Services with that provider.
func (p *plan) adopt(ctx context.Context) error {
	if !p.leads() {
		return nil // the leader does it
	}
	ctx, cancel := context.WithTimeout(ctx, adoptTimeout)
	defer cancel()
	client, err := p.shared.completed.ClientBuilder.Client(serviceController)
	if err == nil {
		err = p.rules.Adopt(ctx, p.shared.client, client) // the manager itself has the right to list
	}
	if err != nil {
		return notYet{err}
	}
	return nil
}

// resumeLoops restarts the loops that stopLoops has stopped.
func (p *plan) resumeLoops() {
	for _, one := range p.removed {
		p.loops.Add(one.loops(p.shared.router))
	}
	for _, c := range p.kept {
		if c.rerouted {
			p.loops.Add(c.one.loops(p.shared.router))
		}
	}
}

// order is the file's order.
func (p *plan) order() (now []*managed) {
	for i := range p.next.Providers {
		name := p.next.Providers[i].Name
		for _, c := range p.kept {
			if c.one.name == name {
				now = append(now, c.one)
			}
		}
		for _, a := range p.added {
			if a.next.Name == name {
				now = append(now, a.one)
			}
		}
	}
	return now
}

// change puts one provider's changes into force.
func (p *plan) change(c *keptProvider) {
	c.one.brake.SetLimits(brakeLimits(p.next.DeletionBrake))
	if c.terms.network != nil {
		c.one.change(c.terms, c.source)
	}
	if c.rerouted {
		p.loops.Add(c.one.loops(p.shared.router))
		return
	}
	p.loops.LookAtVolumes(c.one.name)
}

// turns locks the terms of the changed providers until leave is called, so that
// a file comes into force as a whole. It does not wait for unchanged providers,
// whose Secrets and signers may take long.
func (p *plan) turns(ctx context.Context) (leave func(), err error) {
	var taken []tasks.Turn
	leave = func() {
		for _, t := range taken {
			t.Leave()
		}
	}
	for _, c := range p.kept {
		if c.terms.network == nil {
			continue
		}
		if err := c.one.changing.Take(ctx); err != nil {
			return leave, err
		}
		taken = append(taken, c.one.changing)
	}
	return leave, nil
}

// checkCloudConfig refuses a --cloud-config of an ambiguous provider, or in
// conflict with another setting.
func checkCloudConfig(file string, host *v1alpha1.HostConfiguration) error {
	switch {
	case file == "":
	case len(host.Providers) > 1:
		return errors.New("--cloud-config is for one provider, and the HostConfiguration has several: put each one's configuration beside its module, or name it in configFrom")
	case len(host.Providers) == 1 && host.Providers[0].ConfigFrom != nil:
		return errors.New("--cloud-config and providers[0].configFrom exclude each other: remove one of them")
	}
	return nil
}
