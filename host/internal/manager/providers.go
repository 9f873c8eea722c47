package manager

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/controllers"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/cloudproviders"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/trials"
)

// providers are those that the manager has. They come, change and go by apply
// alone, the first ones as well. It is safe for concurrent use.
type providers struct {
	shared *shared
	loops  *controllers.Loops
	// removed tells of those that are not configured any more.
	removed *removed
	// objects are the CloudProviders; nil where they do not count.
	objects *cloudproviders.Objects
	// work and life are the manager's; living waits for what goes on in the
	// background when a provider is removed.
	work, life context.Context
	living     *tasks.Group

	// changing is held by who applies a configuration. What it guards:
	changing tasks.Turn
	config   *v1alpha1.HostConfiguration // in force; nil before the first

	mu  sync.Mutex
	now []*managed
	// ending are removed, and something of them still runs.
	ending []*managed
	// looked is closed when this manager, which leads, knows what was configured
	// before; nil: it does not lead.
	looked <-chan struct{}
}

// notYet is the error of a configuration that is right, and may be taken up as
// it is at another time.
type notYet struct{ error }

// Unwrap returns the cause.
func (e notYet) Unwrap() error { return e.error }

func later(format string, args ...any) error { return notYet{fmt.Errorf(format, args...)} }

// apply has the manager do what a configuration says, which is valid and has its
// defaults (v1alpha1.Decode; or SetDefaults and Validate). It returns when the
// configuration is in force, as a whole, or with an error when nothing of it
// is; the error is a notYet when it may be taken up later as it is. What was
// removed may end later. Of several callers one comes after the other. Nobody may
// change next after the call.
func (s *providers) apply(ctx context.Context, next *v1alpha1.HostConfiguration) error {
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

// inForce returns the configuration that was applied last; nobody may change it.
func (s *providers) inForce(ctx context.Context) (*v1alpha1.HostConfiguration, error) {
	if err := s.changing.Take(ctx); err != nil {
		return nil, err
	}
	defer s.changing.Leave()
	return s.config, nil
}

// all returns those that are configured.
func (s *providers) all() []*managed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.now)
}

// withEnding are also those that were removed and have not ended.
func (s *providers) withEnding() []*managed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.now, s.ending)
}

// has reports whether there is one of that name, or its end.
func (s *providers) has(name string) bool {
	return slices.ContainsFunc(s.withEnding(), func(one *managed) bool { return one.name == name })
}

// configured reports whether somebody wants one of that name, or its end is not
// over. A CloudProvider with a mistake is wanted, too.
func (s *providers) configured(name string) bool {
	return s.has(name) || s.objects != nil && s.objects.Has(name)
}

func (s *providers) leads() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looked != nil
}

// lead begins what only the leader does.
func (s *providers) lead(looked <-chan struct{}) {
	s.mu.Lock()
	s.looked = looked
	now := slices.Clone(s.now)
	s.mu.Unlock()
	for _, one := range now {
		one.lead(looked)
	}
}

// replace has others take the place of those that there are, and returns what
// lead was told. The names of those that end stay in the statuses of the others
// until their own says that they are removed.
func (s *providers) replace(now, removed []*managed) (looked <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
	s.ending = append(s.ending, removed...)
	s.tellNames()
	return s.looked
}

// tellNames is called with the lock.
func (s *providers) tellNames() {
	var names []string
	for _, one := range slices.Concat(s.now, s.ending) {
		names = append(names, one.name)
	}
	for _, one := range s.now {
		one.reporter.status.among(names)
	}
}

// begin has a new provider work, when those have ended whose store may be its
// own.
func (s *providers) begin(one *managed, after []*managed, looked <-chan struct{}) {
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

// end ends a provider whose loops have been told to stop. It does not wait.
func (s *providers) end(one *managed, stopped <-chan struct{}) {
	s.living.Go("the end of provider "+one.name, func() {
		<-stopped
		if err := one.end(s.life); err != nil {
			one.logger.Error(err, "What the removed provider has begun does not end; its name is not free until then")
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

// clear takes away what is left of a provider that has ended.
func (s *providers) clear(one *managed) {
	ctx, cancel := context.WithTimeout(s.life, trials.LeaveTimeout)
	defer cancel()
	if err := one.book.Close(ctx); err != nil {
		one.logger.Error(err, "What the removed provider had on trial is not struck out")
	}
	if s.leads() {
		s.tellRemoved(one.name)
	}
	one.status.Release()
	s.shared.metrics.Remove(one.name)
	one.events.end()
}

// An API server that is away is asked again so often, and so long: the name is
// taken meanwhile, and the next leader tells it, too.
const (
	removedRetry   = 5 * time.Second
	removedTimeout = time.Minute
)

// tellRemoved says it in the provider's status.
func (s *providers) tellRemoved(name string) {
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

// discard ends a provider that was made and never begun. It does not wait.
func (s *providers) discard(one *managed) {
	one.die()
	one.stop()
	one.loader.close()
	s.living.Go("the end of what was made for provider "+one.name, func() {
		_ = one.living.Wait(context.Background())
		_ = one.book.Close(s.life) // nothing was begun
		one.events.end()
	})
}

// providerLogger is that of one provider.
func providerLogger(name string) klog.Logger {
	return klog.Background().WithName("provider").WithValues("provider", name)
}
