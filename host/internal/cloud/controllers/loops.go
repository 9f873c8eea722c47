package controllers

import (
	"context"
	"errors"
	"slices"
	"sync"

	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	controllermanager "k8s.io/controller-manager/app"
)

// Loops are the control loops of a changing set of providers. Upstream starts each kind of
// loop once, when the manager begins to lead; from then on each provider has its own. It is
// safe for concurrent use.
type Loops struct {
	ctx  context.Context // of all loops
	stop context.CancelFunc

	mu      sync.Mutex // no loop begins during Stop and Remove
	running sync.WaitGroup
	kinds   []*kindOfLoop
	members []*member
	// leaving are the last removed providers by name, until they have stopped.
	leaving map[string]*member
}

// kindOfLoop is a kind that upstream has started.
type kindOfLoop struct {
	loop
	ctx       context.Context // ends with upstream's, and with Stop
	completed *config.CompletedConfig
	manager   controllermanager.ControllerContext
	informers informersFunc
}

// member is a provider with its loops.
type member struct {
	provider    Provider
	ctx         context.Context
	cancel      context.CancelFunc
	after       <-chan struct{} // closed before its loops may begin; nil: at once
	supervisors map[string]*supervisor
	running     sync.WaitGroup
	stopped     chan struct{} // made by Remove; closed when none of its loops runs
}

// NewLoops returns Loops without a provider.
func NewLoops() *Loops {
	l := &Loops{leaving: map[string]*member{}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// Constructors returns every kind of control loop by its name in --controllers. Each start
// returns at once and never fails; the loop follows the providers until its context is done.
func (l *Loops) Constructors() map[string]app.ControllerInitFuncConstructor {
	all := map[string]app.ControllerInitFuncConstructor{}
	for _, one := range loops() {
		all[one.name] = one.constructor(l)
	}
	return all
}

// start begins one kind of loop for every provider.
func (l *Loops) start(k *kindOfLoop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithCancel(k.ctx)
	context.AfterFunc(l.ctx, cancel)
	k.ctx = ctx
	l.kinds = append(l.kinds, k)
	for _, m := range l.members {
		l.begin(k, m)
	}
}

// Add begins the loops of a provider, also of kinds that upstream starts later. If a removed
// provider of that name has not stopped yet, Add waits for it: a provider's loop never runs
// twice.
func (l *Loops) Add(p Provider) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &member{provider: p, supervisors: map[string]*supervisor{}}
	m.ctx, m.cancel = context.WithCancel(l.ctx)
	if before := l.leaving[p.Name]; before != nil {
		m.after = before.stopped
	}
	l.members = append(l.members, m)
	for _, k := range l.kinds {
		l.begin(k, m)
	}
	l.renameGauges()
}

// Remove ends the loops of a provider, calls in flight included. The channel is closed after
// the last call. Ops in the background go on.
func (l *Loops) Remove(name string) (stopped <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.members, func(m *member) bool { return m.provider.Name == name })
	if i < 0 {
		none := make(chan struct{})
		close(none)
		return none
	}
	m := l.members[i]
	l.members = slices.Delete(l.members, i, i+1)
	m.stopped = make(chan struct{})
	l.leaving[name] = m
	m.cancel()
	go func() {
		m.running.Wait()
		if m.after != nil { // it was removed before it began: its predecessor may still run
			<-m.after
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.leaving[name] == m {
			delete(l.leaving, name)
		}
		close(m.stopped)
	}()
	l.renameGauges()
	return m.stopped
}

// LookAtVolumes has a provider's volume loop look at all volumes again, after a change of
// the rules.
func (l *Loops) LookAtVolumes(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.members {
		for _, s := range m.supervisors {
			if m.provider.Name == name && s.loop.queued == kindVolume {
				s.lookAgain()
			}
		}
	}
}

// Stop ends all loops for good. It returns when none calls its provider any more, or when
// the context ends. Ops in the background go on.
func (l *Loops) Stop(ctx context.Context) error {
	l.stop()
	l.mu.Lock()
	l.mu.Unlock() //nolint:staticcheck // earlier holders of the lock have registered their loops
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		l.running.Wait()
	}()
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
		return errors.New("a control loop has not stopped")
	}
}

// begin runs a loop of a provider in the background. The caller holds the lock.
func (l *Loops) begin(k *kindOfLoop, m *member) {
	// Invariant P2 (host/SECURITY.md): each provider has loops of its own.
	s := &supervisor{loop: k.loop, provider: m.provider, completed: k.completed, manager: k.manager, informers: k.informers, informing: k.ctx}
	s.gauge.name = l.managerName(m)
	m.supervisors[k.name] = s
	l.run(k.ctx, m, s.run)
}

// run runs a function of a provider until any of its contexts ends. The caller holds the
// lock.
func (l *Loops) run(ctx context.Context, m *member, run func(context.Context)) {
	if m.ctx.Err() != nil {
		return
	}
	l.running.Add(1)
	m.running.Go(func() {
		defer l.running.Done()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(m.ctx, cancel)()
		if m.after != nil {
			select {
			case <-m.after:
			case <-ctx.Done():
				return
			}
		}
		run(ctx)
	})
}

// each returns the supervisors of one kind of loop.
func (l *Loops) each(kind string) (all []*supervisor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.members {
		if s := m.supervisors[kind]; s != nil {
			all = append(all, s)
		}
	}
	return all
}

// managerName is the label of the gauge of running controllers, which is set and not
// counted: of several providers each has its own; "" is upstream's.
func (l *Loops) managerName(m *member) string {
	if len(l.members) < 2 {
		return ""
	}
	return "cloud-controller-manager/" + m.provider.Name
}

// renameGauges follows a change between one provider and several.
func (l *Loops) renameGauges() {
	for _, m := range l.members {
		for _, s := range m.supervisors {
			s.renameGauge(l.managerName(m))
		}
	}
}
