package manager

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/controllers"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/cloudproviders"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/trials"
)

// providerSet has the manager's providers. Only apply adds, changes and removes
// them, including the first ones. It is safe for concurrent use.
type providerSet struct {
	shared *shared
	loops  *controllers.Loops
	// removed reports providers that are no longer configured.
	removed *removalReporter
	// objects are the CloudProviders; nil where they are disabled.
	objects *cloudproviders.Objects
	// The manager's lifetime; living waits for the background work of a removal.
	*lifetime

	// changing is held while a configuration is applied. It guards:
	changing tasks.Turn
	config   *v1alpha1.HostConfiguration // in force; nil before the first

	mu  sync.Mutex
	now []*managed
	// ending are removed providers with running tasks.
	ending []*managed
	// looked is closed when this leading manager has read the earlier
	// configuration; nil: it does not lead.
	looked <-chan struct{}
}

// all returns the configured providers.
func (s *providerSet) all() []*managed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.now)
}

// withEnding are the configured providers, and the removed ones that have not ended.
func (s *providerSet) withEnding() []*managed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.now, s.ending)
}

// has reports whether a provider with that name is configured or ending.
func (s *providerSet) has(name string) bool {
	return slices.ContainsFunc(s.withEnding(), func(one *managed) bool { return one.name == name })
}

// configured reports whether a provider with that name is wanted, or ending. A
// CloudProvider with a mistake is wanted, too.
func (s *providerSet) configured(name string) bool {
	return s.has(name) || s.objects != nil && s.objects.Has(name)
}

func (s *providerSet) leads() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looked != nil
}

// lead begins the leader's tasks.
func (s *providerSet) lead(looked <-chan struct{}) {
	s.mu.Lock()
	s.looked = looked
	now := slices.Clone(s.now)
	s.mu.Unlock()
	for _, one := range now {
		one.lead(looked)
	}
}

// told returns the receiver of a provider's status for its CloudProvider.
func (s *providerSet) told(name string) func(status.Status) {
	if s.objects == nil {
		return func(status.Status) {}
	}
	return func(x status.Status) { s.objects.Report(name, x.Provider) }
}

// replace exchanges the list of providers, and returns the argument of lead.
// The names of ending providers stay in the statuses of the others until their
// own status says that they are removed.
func (s *providerSet) replace(now, removed []*managed) (looked <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
	s.ending = append(s.ending, removed...)
	s.tellNames()
	return s.looked
}

// tellNames is called with the lock.
func (s *providerSet) tellNames() {
	var names []string
	for _, one := range slices.Concat(s.now, s.ending) {
		names = append(names, one.name)
	}
	for _, one := range s.now {
		one.reporter.status.among(names)
	}
}

// begin starts a new provider, after the end of the providers that may have its
// store.
func (s *providerSet) begin(one *managed, after []*managed, looked <-chan struct{}) {
	one.working.Go("the begin", func() {
		for _, before := range after {
			select {
			case <-before.ended:
			case <-one.work.Done():
				return
			}
		}
		one.run()
	})
	if looked != nil {
		one.lead(looked)
	}
	s.loops.Add(one.loops(s.shared.router))
}

// end ends a provider whose loops were told to stop. It does not wait.
func (s *providerSet) end(one *managed, stopped <-chan struct{}) {
	s.living.Go("the end of provider "+one.name, func() {
		<-stopped
		if err := one.end(s.life); err != nil {
			one.logger.Error(err, "The removed provider has not ended; its name stays reserved until then")
		}
		_ = one.living.Wait(context.Background()) // nothing else ends this: a guest may hang
		close(one.ended)
		s.clear(one)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ending = slices.DeleteFunc(s.ending, func(x *managed) bool { return x == one })
		s.tellNames()
		one.logger.Info("The provider has ended: it is not configured any more")
	})
}

// clear removes the remains of a provider that has ended.
func (s *providerSet) clear(one *managed) {
	ctx, cancel := context.WithTimeout(s.life, trials.LeaveTimeout)
	defer cancel()
	if err := one.book.Close(ctx); err != nil {
		one.logger.Error(err, "The removed provider's trials were not cleared")
	}
	if s.leads() {
		s.tellRemoved(one.name)
	}
	one.status.Release()
	s.shared.metrics.Remove(one.name)
	one.events.end()
}

// The period and the limit of retries while the API server is away: the name
// stays taken meanwhile, and the next leader repeats the report.
const (
	removedRetry   = 5 * time.Second
	removedTimeout = time.Minute
)

// tellRemoved records the removal in the provider's status.
func (s *providerSet) tellRemoved(name string) {
	ctx, cancel := context.WithTimeout(s.life, removedTimeout)
	defer cancel()
	for s.removed.tellOf(ctx, name) != nil {
		select {
		case <-time.After(removedRetry):
		case <-ctx.Done():
			return
		}
	}
}
