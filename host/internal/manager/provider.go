package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/async"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/brake"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/controllers"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/listing"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/provider"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/routing"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/hostfunc"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/shadow"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/trials"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// managed is one configured provider with all that is its own: nothing of it
// is shared with another, so none can hold up or harm another.
type managed struct {
	name string
	// configured are the names of all providers.
	configured []string
	metrics    *metrics.Provider
	logger     klog.Logger
	slot       *plugin.Slot
	recorder   *shadow.Recorder
	allowed    *allowed
	steering   *steering
	networks   *networks
	loader     *providerLoader
	rates      *hostfunc.Rates
	invoker    *async.Invoker
	listing    *listing.Listing
	brake      *brake.Brake
	provider   *provider.Provider
	cloud      cloudprovider.Interface
	reporter   *providerReporter
	rollout    *rollout.Rollout
	status     *status.Object
	// changes tells the control loops that the provider may answer otherwise now.
	changes *changes
	events  record.EventRecorder
	book    *trials.Book
	source  source.Source
	// changing is held while the terms are changed; renewed says that they were.
	changing tasks.Turn
	renewed  chan struct{}
	// working is what ends when nothing new may begin, and living what ends
	// with the rollout; failure is then what goes on all the same.
	working, living tasks.Group
	failure         error
}

// shared is what the providers of a manager have in common.
type shared struct {
	storeNamespace string
	// configured are the names of the providers.
	configured   []string
	completed    *ccmconfig.CompletedConfig
	metrics      *metrics.Metrics
	modules      modules
	router       *routing.Router
	brake        v1alpha1.DeletionBrake
	serviceCIDRs *serviceCIDRs
	trials       *trials.Trials
	outside      outside
	newKube      func(*ccmconfig.CompletedConfig) (kube, error)
	kube
}

// kube is how one part of the manager talks to the API server. Each provider
// has its own, with rates of its own: what one keeps in its store, or says in
// Events, does not hold up another.
type kube struct {
	client kubernetes.Interface
	events record.EventRecorder
}

// newManaged puts one provider together and starts nothing but what watches
// the Secrets and signers of its network.
func (s shared) newManaged(ctx context.Context, logger klog.Logger, p *v1alpha1.Provider) (*managed, error) {
	var err error
	if s.kube, err = s.newKube(s.completed); err != nil { // s is a copy
		return nil, err
	}
	m := &managed{
		name: p.Name, configured: s.configured, metrics: s.metrics.Provider(p.Name), logger: logger,
		renewed: make(chan struct{}, 1), changing: tasks.NewTurn(), changes: newChanges(), events: s.events,
		recorder: shadow.NewRecorder(shadow.Options{MaxSamples: maxShadowSamples}),
		allowed:  &allowed{}, rates: hostfunc.NewRates(rateLimits(p.Limits)),
		status: status.New(s.client, s.storeNamespace, p.Name, clock.RealClock{}),
	}
	m.book = s.trials.Book(klog.NewContext(ctx, logger), p.Name, m.status, &m.living)
	m.slot = plugin.NewRecordedSlot(m.recorder)
	m.networks = s.newNetworks(ctx, m)
	network, err := m.networks.build(p)
	if err != nil {
		return nil, err
	}
	terms, err := newTerms(ctx, p, network)
	if err != nil {
		network.release()
		return nil, errors.Join(err, m.living.Wait(ctx))
	}
	m.allowed.current.Store(network)
	m.steering = s.newSteering(terms.addresses)
	m.loader = s.newLoader(m)
	m.loader.set(terms)
	s.newCloud(m, p)
	m.rollout = s.newRollout(m)
	m.reporter.idle(m.steering.idle())
	m.source = s.newSource(p)
	return m, nil
}

// maxShadowSamples bounds shadowSamples of the HostConfiguration.
const maxShadowSamples = 1000

// newCloud puts the provider of upstream's controllers together: from the slot
// with the guest up to what holds back deletions and what is another's.
func (s *shared) newCloud(m *managed, p *v1alpha1.Provider) {
	guest := scrubbed{m.slot, m.metrics, m.allowed}
	m.invoker = async.New(guest, async.Options{
		Foreground: p.Ops.Foreground.Duration, OpTimeout: longestOp(p), Instances: m.slot.Instances,
		Observer: &observer{logger: m.logger, metrics: m.metrics, events: s.events},
	})
	m.provider = provider.New(m.invoker, provider.WithInstances(s.newBrake(m)), provider.WithAddresses(m.steering.policy, m.steering.refused))
	m.cloud = s.router.Cloud(p.Name, m.provider, routing.CloudOptions{
		Client: s.completed.ClientBuilder.ClientOrDie(serviceController), Recorder: s.events,
	})
}

// serviceController is the identity that may label Services.
const serviceController = "service-controller"

func (s *shared) newRollout(m *managed) *rollout.Rollout {
	m.reporter = newProviderReporter(m, s.events, s.storeNamespace)
	return rollout.New(rollout.Options{
		Slot: m.slot, Loader: m.loader, Clock: clock.RealClock{},
		Policy:  func() rollout.Policy { return policy(m.loader.config().Rollout) },
		Journal: journal{m.status, m.allowed.scrub},
		Trials:  m.book.Of(""),
		Comparer: &comparer{
			recorder: m.recorder, metrics: m.metrics.Rollout(),
			samples:  func() int { return m.loader.config().Rollout.ShadowSamples },
			required: func() bool { return m.loader.config().Rollout.Shadow == v1alpha1.PhaseRequired },
			hush:     m.loader.hush,
		},
		Reporter: m.reporter,
	})
}

// run begins to watch the source and to roll out what it offers. With ctx
// nothing new is taken up any more; with life the rollout ends.
func (m *managed) run(ctx, life context.Context) {
	ctx, life = klog.NewContext(ctx, m.logger), klog.NewContext(life, m.logger)
	m.living.Go("the trials", func() { m.book.Run(life) })
	m.living.Go("the rollout", func() {
		m.failure = m.rollout.Run(life)
		m.loader.close()
	})
	m.working.Go("the news for the control loops", func() { m.changes.follow(ctx, m.slot.Changed) })
	m.working.Go("the source", func() { m.source.Run(ctx, m.rollout.Offer) })
	m.working.Go("the renewal of Secrets", func() { m.followSecrets(ctx) })
}

// secretsRetry is the time between two tries to take up changed Secrets.
const secretsRetry = 10 * time.Second

// followSecrets makes a generation of its own of changed Secrets: the one that
// serves keeps the values that it was probed with until the new ones work.
func (m *managed) followSecrets(ctx context.Context) {
	var again <-chan time.Time
	for {
		now := m.allowed.current.Load()
		select {
		case <-ctx.Done():
			return
		case <-m.renewed: // there are others to follow
			continue
		case <-now.secrets.Changed():
		case <-again:
		}
		again = nil
		if err := m.renew(ctx); err != nil {
			m.logger.Error(err, "The changed Secrets are not taken up yet; the values before stay in use")
			again = time.After(secretsRetry)
		}
	}
}

// renew makes the network afresh, with the Secrets as they are now.
func (m *managed) renew(ctx context.Context) error {
	if err := m.changing.Take(ctx); err != nil {
		return err
	}
	defer m.changing.Leave()
	t, err := m.terms(ctx, m.loader.config())
	if err != nil {
		return err
	}
	m.logger.Info("Secrets have changed", "revision", t.revision)
	m.change(t)
	return nil
}

// lead begins what only the leader does. The status is not written before looked
// is closed: what was configured before stands in it.
func (m *managed) lead(ctx context.Context, looked <-chan struct{}) {
	ctx = klog.NewContext(ctx, m.logger)
	m.rollout.Lead()
	m.working.Go("the status", func() {
		<-looked
		m.status.Run(ctx, func(c status.Command) { m.obey(ctx, c) })
	})
}

// errUnread is of an annotation of the provider's ConfigMap that is no command.
var errUnread = errors.New("nobody reads this annotation here; there are " + strings.Join(status.Annotations(), ", "))

// obey carries out a command of a person.
func (m *managed) obey(ctx context.Context, c status.Command) {
	switch {
	case c.Kind == status.Promote && m.promoteSigner(ctx, c):
		return
	case c.Kind == status.Unread:
		m.reporter.Commanded(rollout.Command{Kind: c.Argument, By: c.By}, errUnread)
		return
	}
	if err := m.rollout.Command(rollout.Command{Kind: string(c.Kind), Argument: c.Argument, By: c.By}); err != nil {
		m.logger.Error(err, "A command is dropped", "command", c.Kind)
	}
}

// promoteSigner has a signer tried again in which a manager ended, if it is
// one that the command means.
func (m *managed) promoteSigner(ctx context.Context, c status.Command) bool {
	name, err := m.book.PardonSigner(ctx, c.Argument)
	if name == "" && err == nil {
		return false
	}
	m.reporter.Commanded(rollout.Command{Kind: rollout.CommandPromote, Argument: c.Argument, By: c.By}, err)
	for _, s := range m.allowed.current.Load().signers {
		if s.name == name {
			s.roll.Reload()
		}
	}
	return true
}

// loops are what upstream's controllers see of the provider.
func (m *managed) loops(router *routing.Router) controllers.Provider {
	return controllers.Provider{
		Name: m.name, Cloud: m.cloud, Volumes: m.provider.Volumes(), Changed: m.changes.Changed, Healthy: m.healthy,
		Uninitialised: newUninitialised(m.events),
		Nodes:         router.Nodes(m.name), OwnedNodes: router.OwnedNodes(m.name),
		Services: router.Services(m.name), PersistentVolumes: router.PersistentVolumes(m.name),
	}
}

// healthy is what /healthz asks about the control loops.
func (m *managed) healthy() error {
	if err := m.invoker.Healthy(); err != nil {
		return fmt.Errorf("provider %s: %w", m.name, err)
	}
	return nil
}

// rules of a provider for the router. A single provider without routing gets
// everything, so nothing is filled in for it.
func rules(c *v1alpha1.HostConfiguration) (all []routing.Rules) {
	for i := range c.Providers {
		p := &c.Providers[i]
		r := routing.Rules{
			Provider: p.Name, Schemes: p.Routing.Nodes.Schemes, AskNodes: p.Routing.Nodes.Ask,
			DefaultServices: p.Routing.Services.Default, VolumeDrivers: p.Routing.Volumes.Drivers, VolumeSchemes: p.Routing.Volumes.Schemes,
		}
		if len(c.Providers) > 1 {
			r.VolumeSchemes = p.VolumeSchemes()
		}
		all = append(all, r)
	}
	return all
}
