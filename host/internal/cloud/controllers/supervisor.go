package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	controllermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/klog/v2"
)

const (
	firstRetry = 5 * time.Second
	lastRetry  = 5 * time.Minute
)

// constructor makes the InitFunc that starts one supervisor per provider.
func (l loop) constructor(all *Loops) app.ControllerInitFuncConstructor {
	return app.ControllerInitFuncConstructor{
		InitContext: app.ControllerInitContext{ClientName: l.clientName},
		Constructor: func(_ app.ControllerInitContext, completed *config.CompletedConfig, _ cloudprovider.Interface) app.InitFunc {
			return func(ctx context.Context, manager controllermanager.ControllerContext) (controller.Interface, bool, error) {
				factory := func() (informers.SharedInformerFactory, error) { return completed.SharedInformers, nil }
				if l.ownInformers {
					factory = ownInformers(completed, l.clientName)
				}
				all.start(&kindOfLoop{loop: l, ctx: ctx, completed: completed, manager: manager, informers: factory})
				return supervised{name: l.name, all: all}, true, nil
			}
		},
	}
}

// informersFunc returns the informers that a loop lists with.
type informersFunc func() (informers.SharedInformerFactory, error)

// ownInformers returns a function that makes informers that list with the
// loop's own identity, once, when they are first needed.
func ownInformers(completed *config.CompletedConfig, clientName string) informersFunc {
	var mu sync.Mutex
	var factory informers.SharedInformerFactory
	return func() (informers.SharedInformerFactory, error) {
		mu.Lock()
		defer mu.Unlock()
		if factory != nil {
			return factory, nil
		}
		client, err := completed.ClientBuilder.Client(clientName)
		if err != nil {
			return nil, fmt.Errorf("client of %s: %w", clientName, err)
		}
		factory = informers.NewSharedInformerFactory(client, 0)
		return factory, nil
	}
}

// supervisor runs one control loop of one provider whenever it can run.
type supervisor struct {
	loop      loop
	provider  Provider
	completed *config.CompletedConfig
	manager   controllermanager.ControllerContext
	informers informersFunc
	// informing is the context of the informers: they outlive the provider that was the first to
	// need them.
	informing context.Context
	gauge     gauge

	client kubernetes.Interface // made at the first start, then kept

	mu      sync.Mutex // guards these two for other goroutines; only run writes them
	current *incarnation
	said    string // the last logged reason why the loop does not run
}

// run follows the provider until the context is done and the loop has stopped.
func (s *supervisor) run(ctx context.Context) {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("provider", s.provider.Name, "controller", s.loop.name))
	defer s.stop(ctx, "the manager stops")
	backoff := retries()
	reconfigured := s.reconfigured()
	for {
		changed := s.changed() // before the check, so that no change is missed
		var again <-chan time.Time
		if failed := s.follow(ctx); failed {
			again = time.After(backoff.Step())
		} else {
			backoff = retries()
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
			backoff = retries()
			if s.current != nil {
				s.current.repeat()
			}
		case <-reconfigured:
			reconfigured = s.reconfigured()
			if s.current != nil {
				s.current.review()
			}
		case <-again:
		}
	}
}

func retries() wait.Backoff {
	return wait.Backoff{Duration: firstRetry, Factor: 2, Steps: 100, Cap: lastRetry}
}

func (s *supervisor) changed() <-chan struct{} {
	if s.provider.Changed == nil {
		return nil
	}
	return s.provider.Changed()
}

// reconfigured concerns load balancers only. Nodes are looked at all the time.
func (s *supervisor) reconfigured() <-chan struct{} {
	if s.provider.Reconfigured == nil || s.loop.queued != kindService {
		return nil
	}
	return s.provider.Reconfigured()
}

// follow starts or stops the loop to match the provider. It returns true when a start has
// failed.
func (s *supervisor) follow(ctx context.Context) (failed bool) {
	reason := s.loop.reasonAgainst(s.completed, s.provider)
	switch {
	case ctx.Err() != nil:
	case reason != "" && s.current != nil:
		s.stop(ctx, reason)
		s.say(reason, func() {})
	case reason != "":
		s.say(reason, func() { klog.FromContext(ctx).Info("control loop waits", "reason", reason) })
	case s.current == nil:
		err := s.start(ctx)
		if err == nil {
			s.say("", func() {})
			klog.FromContext(ctx).Info("control loop started")
			return false
		}
		s.say(err.Error(), func() {
			klog.FromContext(ctx).Error(err, "control loop not started; the next change of the provider or a timer tries again")
		})
		return true
	}
	return false
}

// say logs a reason unless it is the last logged one.
func (s *supervisor) say(reason string, log func()) {
	if s.said != reason {
		log()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = reason
}

func (s *supervisor) start(ctx context.Context) error {
	factory, err := s.informers()
	if err != nil {
		return err
	}
	if s.client == nil {
		if s.client, err = s.completed.ClientBuilder.Client(s.loop.clientName); err != nil {
			return fmt.Errorf("client of %s: %w", s.loop.clientName, err)
		}
	}
	current, manager := s.newIncarnation(ctx, factory), s.manager
	manager.ControllerManagerMetrics = s.giveGauge()
	if err := current.start(s.loop, s.completed, manager, s.client); err != nil {
		current.end()
		s.takeGauge()
		return err
	}
	// The manager starts the informers once; later ones must be started here. Running informers
	// are not affected.
	factory.Start(s.informing.Done())
	current.follow()
	s.setCurrent(current)
	return nil
}

func (s *supervisor) stop(ctx context.Context, reason string) {
	if s.current == nil {
		return
	}
	s.current.end()
	s.takeGauge()
	s.setCurrent(nil)
	klog.FromContext(ctx).Info("control loop stopped", "reason", reason)
}

// lookAgain has the running loop look at all objects of its queue.
func (s *supervisor) lookAgain() {
	s.mu.Lock()
	current := s.current
	s.mu.Unlock()
	if current != nil {
		current.view.repeatAll(s.loop.queued)
	}
}

func (s *supervisor) setCurrent(i *incarnation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = i
}

// incarnation is a control loop from one start to the next stop.
type incarnation struct {
	provider Provider // leased
	lease    *lease
	view     *view
	kind     kind // of the objects in the loop's queue
	// queue and refresh are the scheduled repeats.
	queue, refresh *round
	// controller is what the loop returned at its start, or nil.
	controller controller.Interface
	// endReview ends the current review; nil: none.
	endReview context.CancelFunc
}

func (s *supervisor) newIncarnation(ctx context.Context, factory informers.SharedInformerFactory) *incarnation {
	l := newLease(ctx, fmt.Errorf("%s of provider %q has stopped: %w", s.loop.name, s.provider.Name, context.Canceled))
	l.nodes = newUninitialised(s.provider)
	l.delayed = s.provider.Delayed
	if s.provider.Heard != nil {
		l.heard = s.provider.Heard
	}
	l.conditions = newConditions(s.provider.Name, s.client, l.later)
	v := newView(factory, l, s.provider, s.loop.nodes(s.provider))
	i := &incarnation{provider: l.provider(s.provider), lease: l, view: v, kind: s.loop.queued, queue: newRound(), refresh: newRound()}
	l.repeat, l.leaves, l.unmade = i.again, v.leaves, v.unmade
	return i
}

// start runs the InitFunc of the loop. Upstream ends the process when it cannot make a
// client; so it gets a finished one.
func (i *incarnation) start(l loop, completed *config.CompletedConfig, manager controllermanager.ControllerContext, client kubernetes.Interface) error {
	own := *completed.Config
	own.SharedInformers = i.view
	own.ClientBuilder = oneClient{completed.ClientBuilder, quietClient{client, i.lease.later, i.lease.conditions}}
	own.LoopbackClientConfig = nil // Complete would change how requests are authenticated
	syncs := &own.ComponentConfig.ServiceController.ConcurrentServiceSyncs
	*syncs = max(*syncs, serviceWorkers)
	// The provider's capabilities may have changed since the check; half of upstream's
	// controllers start work before their own check.
	if reason := l.reasonAgainst(completed, i.provider); reason != "" {
		return errors.New(reason)
	}
	init := l.start(i.provider)(app.ControllerInitContext{ClientName: l.clientName}, own.Complete(), i.provider.Cloud)
	c, started, err := init(i.lease.ctx, manager)
	if err != nil {
		return fmt.Errorf("starting %s: %w", l.name, err)
	}
	if !started {
		return errors.New("the controller declined to start; its own log says why")
	}
	i.controller = c
	return nil
}

// end returns when the loop has made its last call of the provider.
func (i *incarnation) end() {
	i.lease.end()
	i.view.release()
}

// oneClient is a ClientBuilder with a finished client.
type oneClient struct {
	cloudprovider.ControllerClientBuilder
	client kubernetes.Interface
}

func (o oneClient) Client(string) (kubernetes.Interface, error) { return o.client, nil }
func (o oneClient) ClientOrDie(string) kubernetes.Interface     { return o.client }
