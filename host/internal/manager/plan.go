package manager

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/routing"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
)

// plan is what makes of the providers that there are those of another
// configuration.
type plan struct {
	*providers
	next    *v1alpha1.HostConfiguration
	rules   *routing.Next
	kept    []*change
	added   []*addition
	removed []*managed
}

// change is of a provider that stays.
type change struct {
	one  *managed
	next *v1alpha1.Provider
	// terms have a network when anything of the provider changes.
	terms terms
	// source is another one than before, or nil.
	source source.Source
	// rerouted: other objects are the provider's.
	rerouted bool
}

// addition is a provider that comes.
type addition struct {
	next *v1alpha1.Provider
	one  *managed
	// after are those whose end it waits for: it has the store of one of them.
	after []*managed
}

// plan looks at what differs. An error says why it cannot be, or not yet.
func (s *providers) plan(next *v1alpha1.HostConfiguration) (*plan, error) {
	if err := checkCloudConfig(s.shared.configFile(), next); err != nil {
		return nil, err
	}
	rules, err := s.shared.router.Next(rules(next))
	if err != nil {
		return nil, fmt.Errorf("providers[].routing: %w", err)
	}
	p := &plan{providers: s, next: next, rules: rules}
	gone := s.all()
	for i := range next.Providers {
		one := &next.Providers[i]
		at := slices.IndexFunc(gone, func(m *managed) bool { return m.name == one.Name })
		if at < 0 {
			p.added = append(p.added, &addition{next: one})
			continue
		}
		p.kept = append(p.kept, &change{one: gone[at], next: one, rerouted: rules.Differs(one.Name)})
		gone = slices.Delete(gone, at, at+1)
	}
	p.removed = gone
	return p, p.possible()
}

// possible says of what another provider still has that it cannot be taken yet.
func (p *plan) possible() error {
	for _, a := range p.added {
		for _, one := range p.withEnding() {
			switch ends := p.ends(one); {
			case ends && one.name == a.next.Name:
				return later("providers: the provider %s that was removed has not ended yet: a call of it goes on, or its status could not be written; its name is free then", one.name)
			case ends && a.next.Store == "", slices.Contains(p.removed, one) && (one.loader.config().Store == "" || one.mayHold(a.next.Store)):
				a.after = append(a.after, one)
			case one.mayHold(a.next.Store):
				return p.storeTaken(a.next, one)
			}
		}
	}
	for _, c := range p.kept {
		if c.next.Store == c.one.loader.config().Store {
			continue
		}
		for _, one := range p.withEnding() {
			if one != c.one && one.mayHold(c.next.Store) {
				return p.storeTaken(c.next, one)
			}
		}
	}
	return nil
}

// ends reports whether a provider was, or is, removed.
func (p *plan) ends(one *managed) bool {
	return slices.Contains(p.removed, one) || !slices.Contains(p.all(), one)
}

// storeTaken: no two providers write into one store, also not for a while.
func (p *plan) storeTaken(next *v1alpha1.Provider, holder *managed) error {
	path := fmt.Sprintf("provider %s: the store %q", next.Name, next.Store)
	if now := holder.loader.config().Store; slices.Contains(p.all(), holder) && (now == "" || now == next.Store) {
		return fmt.Errorf("%s is that of provider %s until now: change the file in two steps, and give provider %s another one, or remove it, in the first", path, holder.name, holder.name)
	}
	return later("%s is still that of provider %s: a generation that has it, or the end of the provider, goes on", path, holder.name)
}

// make makes all that is new, and changes nothing.
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
			if c.source, err = p.shared.newSource(c.one, c.next); err != nil {
				return err
			}
		}
	}
	for _, a := range p.added {
		if a.one, err = p.newManaged(ctx, a.next, p.next.DeletionBrake); err != nil {
			return err
		}
	}
	return nil
}

func differentSource(next, before *v1alpha1.Provider) bool {
	return !equality.Semantic.DeepEqual(next.Source, before.Source) || !equality.Semantic.DeepEqual(next.ConfigFrom, before.ConfigFrom) ||
		next.Limits.Module.Cmp(before.Limits.Module) != 0
}

// giveUp ends what was made.
func (p *plan) giveUp() {
	for _, c := range p.kept {
		if c.terms.network != nil {
			c.terms.network.release()
		}
	}
	for _, a := range p.added {
		if a.one != nil {
			p.discard(a.one)
		}
	}
}

// loopsTimeout is how long control loops are waited for that stop. A call that
// hangs all the same keeps nobody else: its own loops begin after it.
const loopsTimeout = 10 * time.Second

// take takes everything into force.
func (p *plan) take(ctx context.Context) error {
	leave, err := p.turns(ctx)
	defer leave()
	if err != nil {
		return notYet{err}
	}
	if err := p.adopt(ctx); err != nil { // most of it while the loops work
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

// stopLoops stops the control loops of those that go, and of those that get other
// objects: a service loop that sees a Service go deletes its load balancer. It
// returns when they have stopped, mostly, and what tells it of those that go.
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

// adoptTimeout bounds one try to label Services; what is done is not done again.
const adoptTimeout = 30 * time.Second

// adopt has the load balancers of a provider that has had everything stay its own.
func (p *plan) adopt(ctx context.Context) error {
	if !p.leads() {
		return nil // who leads does it
	}
	ctx, cancel := context.WithTimeout(ctx, adoptTimeout)
	defer cancel()
	client, err := p.shared.completed.ClientBuilder.Client(serviceController)
	if err == nil {
		err = p.rules.Adopt(ctx, p.shared.client, client) // to list is the manager's own right
	}
	if err != nil {
		return notYet{err}
	}
	return nil
}

// resumeLoops begins those again that stopLoops has stopped.
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

// order is that of the file.
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

// change takes what changes of one provider into force.
func (p *plan) change(c *change) {
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

// turns lets nobody else change the terms of the providers that get others,
// until leave is called: a file is in force as a whole. Whom it leaves alone it
// does not wait for: that one's Secrets and signers may take long.
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
