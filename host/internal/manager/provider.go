package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

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
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/kubecache"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/shadow"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/calls"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tracing"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/trials"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// managed is one configured provider with all its parts: providers share none
// of them, so that none can delay or harm another.
type managed struct {
	name     string
	kube     // its own
	metrics  *metrics.Provider
	logger   klog.Logger
	slot     *plugin.Slot
	recorder *shadow.Recorder
	allowed  *allowed
	steering *steering
	networks *networks
	// calls are the latest requests to its cloud.
	calls    *calls.Log
	loader   *providerLoader
	rates    *hostfunc.Rates
	invoker  *async.Invoker
	listing  *listing.Listing
	brake    *brake.Brake
	provider *provider.Provider
	cloud    cloudprovider.Interface
	reporter *providerReporter
	history  *history
	rollout  *rollout.Rollout
	status   *status.Object
	// changes notifies the control loops that the provider may answer differently now.
	changes *changes
	// configured notifies them of another configuration of the module.
	configured *changes
	book       *trials.Book
	// source is the first; sources has one that replaces the previous one.
	source  source.Source
	sources chan source.Source
	// generation counts the takeovers.
	generation atomic.Int64
	// leading: the control loops run in this manager.
	leading atomic.Bool
	// changing is held while the terms are changed; renewed and trust signal
	// the change, the latter to the source.
	changing       tasks.Turn
	renewed, trust chan struct{}
	// work is the context of parts that start others, and ends with stop; life
	// that of the rollout and its resources, and ends with die.
	work, life context.Context
	stop, die  context.CancelFunc
	// working are the tasks that end with work, and living those that end with life;
	// failure is the rollout's error. ended is closed when no task is left.
	working, living tasks.Group
	failure         error
	ended           chan struct{}
}

// shared are the common parts of a manager's providers.
type shared struct {
	storeNamespace string
	completed      *ccmconfig.CompletedConfig
	metrics        *metrics.Metrics
	spans          *tracing.Spans
	modules        modules
	router         *routing.Router
	serviceCIDRs   *serviceCIDRs
	trials         *trials.Trials
	caches         *kubecache.Caches
	outside        outside
	newKube        func(*ccmconfig.CompletedConfig) (kube, error)
	kube
}

// newManaged builds one provider and starts only the watches of its network's
// Secrets and signers. After an error nothing of it remains.
func (s *providers) newManaged(ctx context.Context, p *v1alpha1.Provider, brake v1alpha1.DeletionBrake) (*managed, error) {
	own, err := s.shared.newKube(s.shared.completed)
	if err != nil {
		return nil, err
	}
	m := &managed{
		name: p.Name, kube: own, metrics: s.shared.metrics.Provider(p.Name), logger: providerLogger(p.Name),
		renewed: make(chan struct{}, 1), trust: make(chan struct{}, 1), changing: tasks.NewTurn(), changes: newChanges(), configured: newChanges(),
		calls:    calls.New(),
		recorder: shadow.NewRecorder(shadow.Options{MaxSamples: maxShadowSamples}),
		allowed:  &allowed{}, history: newHistory(), rates: hostfunc.NewRates(rateLimits(p.Limits)),
		status:  status.New(own.client, s.shared.storeNamespace, p.Name, clock.RealClock{}).With(s.shared.modules.store),
		sources: make(chan source.Source, 1), ended: make(chan struct{}),
	}
	m.work, m.stop = context.WithCancel(klog.NewContext(s.work, m.logger))
	m.life, m.die = context.WithCancel(klog.NewContext(s.life, m.logger))
	m.book = s.shared.trials.Book(m.life, p.Name, m.status)
	m.slot = plugin.NewRecordedSlot(m.recorder)
	m.networks = s.shared.newNetworks(m.life, m)
	m.loader = s.shared.newLoader(m)
	network, err := m.networks.build(p)
	if err == nil {
		err = s.shared.fill(ctx, m, p, network, brake)
	}
	if err != nil {
		s.discard(m)
		return nil, err
	}
	m.reporter.status.told = s.told(p.Name)
	return m, nil
}

// fill builds the remaining parts of a provider, around its network.
func (s *shared) fill(ctx context.Context, m *managed, p *v1alpha1.Provider, n *network, brake v1alpha1.DeletionBrake) error {
	terms, err := m.loader.newTerms(ctx, p, n)
	if err != nil {
		n.release()
		return err
	}
	m.allowed.current.Store(n)
	m.steering = s.newSteering(m.events, terms.addresses)
	m.loader.set(terms)
	s.newCloud(m, p, brake)
	m.rollout = s.newRollout(m)
	m.reporter.idle(m.steering.idle())
	m.source, err = s.newSource(m, p)
	return err
}

// maxShadowSamples bounds shadowSamples of the HostConfiguration.
const maxShadowSamples = 1000

// newCloud builds the cloud for upstream's controllers: from the slot with the
// guest up to the deletion brake and the routing of objects.
func (s *shared) newCloud(m *managed, p *v1alpha1.Provider, brake v1alpha1.DeletionBrake) {
	guest := scrubbed{m.slot, m.name, m.metrics, s.spans, m.allowed, m.history, m.generation.Load}
	m.invoker = async.New(guest, async.Options{
		Foreground: p.Ops.Foreground.Duration, OpTimeout: longestOp(p), Instances: m.slot.Instances,
		Observer: &observer{logger: m.logger, metrics: m.metrics, events: m.events},
	})
	m.provider = provider.New(m.invoker, provider.WithInstances(s.newBrake(m, brake)), provider.WithAddresses(m.steering.policy, m.steering.refused))
	m.cloud = s.spans.Cloud(p.Name, s.router.Cloud(p.Name, m.provider, routing.CloudOptions{
		Client: s.completed.ClientBuilder.ClientOrDie(serviceController), Recorder: m.events,
	}))
}

// The identities that may label Services, and that may change Nodes.
const (
	serviceController = "service-controller"
	nodeController    = "node-controller"
)

func (s *shared) newRollout(m *managed) *rollout.Rollout {
	m.reporter = newProviderReporter(m, s.storeNamespace)
	return rollout.New(rollout.Options{
		Slot: m.slot, Loader: m.loader, Clock: clock.RealClock{},
		Policy:   func() rollout.Policy { return policy(m.loader.config().Rollout) },
		Journal:  journal{m.status, m.allowed.scrub},
		Trials:   m.book.Of(""),
		Examiner: s.newExaminer(m),
		Reporter: m.reporter,
	})
}

func (s *shared) newExaminer(m *managed) *examiner {
	return &examiner{
		recorder: m.recorder, metrics: m.metrics.Rollout(), slot: m.slot,
		objects: ownObjects{s.completed.SharedInformers.Core().V1(), s.router, m.name}.watch(),
		policy:  m.steering.policy, cluster: m.loader.loader.ClusterName,
		samples: func() int { return m.loader.config().Rollout.ShadowSamples },
		leads:   m.leading.Load, hush: m.loader.hush,
	}
}

// run watches the source and rolls out its offers.
func (m *managed) run() {
	m.living.Go("the trials", func() { m.book.Run(m.life) })
	m.living.Go("the rollout", func() {
		m.failure = m.rollout.Run(m.life)
		m.loader.close()
	})
	m.working.Go("the news for the control loops", func() { m.changes.follow(m.work, m.slot.Changed) })
	m.working.Go("the source", func() { m.followSources(m.work) })
	m.working.Go("the renewal of Secrets", func() { m.followSecrets(m.work) })
}

// followSources watches one source after the other until the context ends. A
// module of the previous source serves until an offer of the next one passes.
func (m *managed) followSources(ctx context.Context) {
	for next := m.source; next != nil; {
		now := next
		watching, cancel := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			now.Run(watching, m.rollout.Offer)
		}()
		select {
		case next = <-m.sources:
		case <-ctx.Done():
			next = nil
		}
		cancel()
		<-ended
		m.reporter.sourceReplaced()
	}
}

// secretsRetry is the delay between attempts to apply changed Secrets.
const secretsRetry = 10 * time.Second

// followSecrets makes a new generation for changed Secrets: the serving one
// keeps the values of its probe until the new ones work.
func (m *managed) followSecrets(ctx context.Context) {
	var again <-chan time.Time
	for {
		now := m.allowed.current.Load()
		select {
		case <-ctx.Done():
			return
		case <-m.renewed: // there are other Secrets to watch
			continue
		case <-now.secrets.Changed():
		case <-again:
		}
		again = nil
		if err := m.renew(ctx); err != nil {
			m.logger.Error(err, "The changed Secrets are not in use yet; the previous values stay")
			again = time.After(secretsRetry)
		}
	}
}

// renew builds a new network, with the present Secrets.
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
	m.change(t, nil)
	return nil
}

// lead begins the leader's tasks. The status is not written before looked is
// closed, since it has the earlier configuration.
func (m *managed) lead(looked <-chan struct{}) {
	m.leading.Store(true)
	m.rollout.Lead()
	m.tick(m.loader.loader.ClusterName)
	m.working.Go("the status", func() {
		<-looked
		m.status.Run(m.work, func(c status.Command) { m.obey(m.work, c) })
	})
}

// errUnread is for an unknown annotation of the provider's ConfigMap.
var errUnread = errors.New("the manager does not know this annotation; it knows " + strings.Join(status.Annotations(), ", "))

// obey executes a person's command.
func (m *managed) obey(ctx context.Context, c status.Command) {
	switch {
	case c.Kind == status.Promote && m.promoteOther(ctx, c):
		return
	case c.Kind == status.Unread:
		m.reporter.Commanded(rollout.Command{Kind: c.Argument, By: c.By}, errUnread)
		return
	}
	if err := m.rollout.Command(rollout.Command{Kind: string(c.Kind), Argument: c.Argument, By: c.By}); err != nil {
		m.logger.Error(err, "A command is dropped", "command", c.Kind)
	}
}

// promoteOther allows another attempt at a signer or an image on trial when a
// manager ended, if the command names one.
func (m *managed) promoteOther(ctx context.Context, c status.Command) bool {
	pardoned, err := m.book.Pardon(ctx, c.Argument)
	if pardoned == (trial.Subject{}) && err == nil {
		return false
	}
	m.reporter.Commanded(rollout.Command{Kind: rollout.CommandPromote, Argument: c.Argument, By: c.By}, err)
	for _, s := range m.allowed.current.Load().signers {
		if s.name == pardoned.Signer {
			s.roll.Reload()
		}
	}
	return true
}

// loops are the provider's parts for upstream's controllers.
func (m *managed) loops(router *routing.Router) controllers.Provider {
	return controllers.Provider{
		Name: m.name, Cloud: m.cloud, Volumes: m.provider.Volumes(), Changed: m.changes.Changed, Reconfigured: m.configured.Changed, Healthy: m.healthy,
		Uninitialised: newUninitialised(m.events), Delayed: newDelayed(m.events), Heard: m.history.told,
		Nodes: router.Nodes(m.name), OwnedNodes: router.OwnedNodes(m.name),
		Services: router.Services(m.name), Classes: router.Classes(m.name), PersistentVolumes: router.PersistentVolumes(m.name),
	}
}

// healthy is the check of the control loops for /healthz.
func (m *managed) healthy() error {
	if err := m.invoker.Healthy(); err != nil {
		return fmt.Errorf("provider %s: %w", m.name, err)
	}
	return nil
}

// terms builds the terms of a configuration, once its signers serve.
func (m *managed) terms(ctx context.Context, p *v1alpha1.Provider) (terms, error) {
	network, err := m.networks.build(p)
	if err != nil {
		return terms{}, err
	}
	t, err := m.loader.newTerms(ctx, p, network)
	if err == nil {
		if err = network.ready(ctx); err != nil {
			err = notYet{err}
		}
	}
	if err != nil {
		network.release()
		return terms{}, err
	}
	return t, nil
}

// change puts new terms into force: restrictions at once, extensions with a new
// generation. With another source that generation is the source's offer.
func (m *managed) change(t terms, src source.Source) {
	before := m.loader.config()
	m.rates.Set(rateLimits(t.config.Limits))
	m.invoker.SetTimes(t.config.Ops.Foreground.Duration, longestOp(t.config))
	t.network.Client.Enforce()
	m.allowed.current.Store(t.network)
	m.steering.set(t.addresses)
	m.reporter.idle(m.steering.idle())
	m.listing.Reset() // it holds answers accepted under the earlier terms
	if !sameRights(before, t.config) {
		m.recorder.Reset() // Invariant G3 (host/SECURITY.md): a replay answers from it, and asks no grant.
	}
	m.changes.tell()
	m.loader.set(t).release()
	if src != nil {
		m.replaceSource(src)
	} else {
		m.rollout.Reload()
	}
	for _, told := range []chan struct{}{m.renewed, m.trust} {
		select {
		case told <- struct{}{}:
		default: // followSecrets or the source has a signal pending
		}
	}
}

// replaceSource is called by one goroutine at a time.
func (m *managed) replaceSource(src source.Source) {
	select {
	case <-m.sources: // the pending source was never started
	default:
	}
	m.sources <- src
}

// rules of a provider for the router. A single provider without routing gets
// all objects, so no default is filled in for it.
func rules(c *v1alpha1.HostConfiguration) (all []routing.Rules) {
	for i := range c.Providers {
		p := &c.Providers[i]
		r := routing.Rules{
			Provider: p.Name, Schemes: p.Routing.Nodes.Schemes, AskNodes: p.Routing.Nodes.Ask,
			DefaultServices: p.Routing.Services.Default, Classes: p.Routing.Services.Classes, VolumeDrivers: p.Routing.Volumes.Drivers, VolumeSchemes: p.Routing.Volumes.Schemes,
		}
		if len(c.Providers) > 1 {
			r.VolumeSchemes = p.VolumeSchemes()
		}
		all = append(all, r)
	}
	return all
}
