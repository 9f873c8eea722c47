package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/controllers"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/routing"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/config"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/election"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/trials"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

const (
	// component is the name in Events and in the User-Agent.
	component = "wasm-cloud-controller-manager"
)

// manager holds what lives as long as the process.
type manager struct {
	options *config.Options
	metrics *metrics.Metrics
	outside outside
	// work is the context of what begins things. It ends with the signal, or
	// with cease.
	work    context.Context
	cease   context.CancelFunc
	working tasks.Group
	// loopStopper ends the control loops; life is the context of what outlives
	// them, and ends with die.
	loopStopper *controllers.Stopper
	life        context.Context
	die         context.CancelFunc
	living      tasks.Group
	leadership  election.Leadership

	// These are made by start, after the flags are parsed.
	providers []*managed
	router    *routing.Router
	unrouted  func(context.Context)
	unread    func(context.Context)
	removed   *removed
	trials    *trials.Trials
	pulse     *pulse
	leases    *election.Leases
	// last are called when everything else has ended.
	last []func()
}

// newManager makes what is there before the flags are parsed. With the context
// nothing new begins any more; what is under way then ends in shutDown.
func newManager(ctx context.Context, options *config.Options, newEngine NewEngine) *manager {
	m := &manager{options: options, outside: realOutside(newEngine), metrics: metrics.New(), loopStopper: controllers.NewStopper()}
	m.work, m.cease = context.WithCancel(ctx)
	m.life, m.die = context.WithCancel(context.Background())
	return m
}

// start begins to watch the sources and to serve probes. It runs before leader
// election, so that a standby manager has its providers ready. Whatever it
// returns, shutDown ends what it has started.
func (m *manager) start(c *ccmconfig.CompletedConfig) error {
	m.outside.register(m.metrics)
	host, err := m.options.HostConfiguration()
	if err != nil {
		return err
	}
	if m.router, err = routing.New(rules(host)); err != nil {
		return fmt.Errorf("providers[].routing: %w", err)
	}
	client, err := m.outside.client(c.Kubeconfig)
	if err != nil {
		return err
	}
	m.leases = election.NewLeases(client, c.Kubeconfig)
	common, err := m.newShared(c, host)
	if err != nil {
		return err
	}
	m.trials = common.trials
	m.removed = &removed{kube: common.kube, namespace: common.storeNamespace}
	m.pulse = newPulse()
	m.living.Go("the pulse", func() { m.pulse.run(m.life) })
	for i := range host.Providers {
		p := &host.Providers[i]
		logger := klog.Background().WithName("provider")
		if len(host.Providers) > 1 {
			logger = logger.WithValues("configured", p.Name)
		}
		one, err := common.newManaged(klog.NewContext(m.life, logger), logger, p)
		if err != nil {
			return err
		}
		m.providers = append(m.providers, one)
	}
	m.trials.Seal()
	m.unrouted = newUnrouted(m.router, common)
	if m.unread, err = newUnread(common); err != nil {
		return err
	}
	if address := m.options.ProbeBindAddress; address != "0" {
		if err := serveProbes(m.work, &m.working, address, m.serving); err != nil {
			return err
		}
	}
	for _, one := range m.providers {
		one.run(m.work, m.life)
	}
	if file := m.options.ConfigFile; file != "" {
		r := &reloader{manager: m, current: host}
		m.working.Go("the reload of the configuration", func() { r.run(klog.NewContext(m.work, klog.Background().WithName("config")), file) })
	}
	return nil
}

// end strikes out what this process has on trial, so that the next one does not
// suspect it. That is left out when the process stood still, or cannot end a
// call: then it may be the liveness probe that ends it.
func (m *manager) end(ctx context.Context) {
	if m.trials == nil {
		return // it never started
	}
	// Invariant M16 (host/SECURITY.md): marks are struck out by a process that ends as it should,
	// and by no other.
	if err := m.fit(); err != nil {
		klog.ErrorS(err, "What is on trial is suspected after the restart")
		return
	}
	if err := m.trials.Leave(ctx); err != nil {
		klog.ErrorS(err, "What is on trial is not struck out, and is suspected after the restart")
	}
}

// fit says why the kubelet may have ended this process.
func (m *manager) fit() error {
	if !m.pulse.steady(time.Since(m.pulse.begun)) {
		return fmt.Errorf("this process stood still for more than %v", stall)
	}
	for _, one := range m.providers {
		if err := one.healthy(); err != nil {
			return err
		}
	}
	return nil
}

// serving reports whether any provider serves: one that is broken must not take
// the others' manager away. A standby that waits for the leader is ready, too:
// else the rollout of a new manager would wait for it, with an old leader that
// passes nothing.
func (m *manager) serving() bool {
	for _, one := range m.providers {
		if one.slot.Serving() != nil || one.rollout.Waits() {
			return true
		}
	}
	return false
}

// loops are the providers as upstream's controllers see them.
func (m *manager) loops() (all []controllers.Provider) {
	for _, one := range m.providers {
		all = append(all, one.loops(m.router))
	}
	return all
}

// lead begins what only the leader does.
func (m *manager) lead() {
	m.leadership.Begin()
	looked := make(chan struct{})
	m.working.Go("the look at removed providers", func() {
		defer close(looked)
		m.removed.tell(m.work, m.providers)
	})
	for _, one := range m.providers {
		one.lead(m.work, looked)
	}
	m.working.Go("the reporter of objects without a provider", func() { m.unrouted(m.work) })
	m.working.Go("the reporter of annotations", func() { m.unread(m.work) })
}

// newUnrouted returns what tells of objects that are nobody's, until the context
// ends. Its informers are its own: who watches first sets the period in which
// upstream's loops look again.
func newUnrouted(router *routing.Router, s *shared) func(context.Context) {
	var options []informers.SharedInformerOption
	if router.Everything() { // then only a Service that another one has owned is nobody's
		options = append(options, informers.WithTweakListOptions(func(list *metav1.ListOptions) { list.LabelSelector = routing.ServiceOwnerLabel }))
	}
	return func(ctx context.Context) {
		factory := informers.NewSharedInformerFactoryWithOptions(s.client, 0, options...)
		core := factory.Core().V1()
		reporter := routing.NewReporter(router, core.Services(), core.Nodes(), s.events)
		factory.Start(ctx.Done())
		defer factory.Shutdown()
		if err := reporter.Run(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "Nobody is told of objects without a provider")
		}
	}
}

// leader is the cloudprovider.Interface that upstream's command holds. It
// initialises it when this manager begins to lead; the control loops have
// those of their providers.
type leader struct {
	cloudprovider.Interface
	lead func()
}

// Initialize is called once, after leader election.
func (l leader) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) { l.lead() }

// cloud returns what upstream's command holds.
func (m *manager) cloud() cloudprovider.Interface {
	return leader{m.providers[0].provider, sync.OnceFunc(m.lead)}
}

// newShared makes what the providers have in common.
func (m *manager) newShared(c *ccmconfig.CompletedConfig, host *v1alpha1.HostConfiguration) (*shared, error) {
	own, err := m.newKube(c)
	if err != nil {
		return nil, err
	}
	modules, remove, err := m.outside.modules(m.options)
	if err != nil {
		return nil, err
	}
	m.last = append(m.last, remove)
	if c.ComponentConfig.KubeCloudShared.CloudProvider.CloudConfigFile != "" && len(host.Providers) > 1 {
		return nil, errors.New("--cloud-config is for one provider, and the HostConfiguration has several: put each one's configuration beside its module")
	}
	services := &serviceCIDRs{client: own.client, logger: klog.FromContext(m.work)}
	services.refresh(m.work) // nothing is decided before
	m.working.Go("the list of ServiceCIDRs", func() { services.run(m.work) })
	name, err := identity(c)
	if err != nil {
		return nil, err
	}
	return &shared{
		serviceCIDRs: services, newKube: m.newKube, outside: m.outside, configured: providerNames(host),
		storeNamespace: m.options.StoreNamespace, completed: c, kube: own, metrics: m.metrics,
		modules: modules, router: m.router, brake: host.DeletionBrake, trials: trials.New(name),
	}, nil
}

// identity names this manager among others, also after it was restarted: it is
// the only one on its host, or in its pod, that has this port.
func identity(c *ccmconfig.CompletedConfig) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("the name of this host, by which a manager knows its own trials after a restart: %w", err)
	}
	if c.SecureServing == nil || c.SecureServing.Listener == nil {
		return host, nil
	}
	_, port, err := net.SplitHostPort(c.SecureServing.Listener.Addr().String())
	return net.JoinHostPort(host, port), err
}

// eventBurst and eventsPerSecond bound the Events on one object. A rollout has
// some eight, and the one that says why it ended must not be left out.
const (
	eventBurst      = 200
	eventsPerSecond = 0.5
)

// newRecorder has a broadcaster of its own: upstream's starts only after the
// first offer may already have been rejected. Its client has a rate of its
// own, too: Events must not hold up stores and Secrets. It ends last: what ends
// has something to tell.
func (m *manager) newRecorder(c *ccmconfig.CompletedConfig) (record.EventRecorder, error) {
	client, err := m.outside.client(c.Kubeconfig)
	if err != nil {
		return nil, err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(context.WithoutCancel(m.life)),
		record.WithCorrelatorOptions(record.CorrelatorOptions{BurstSize: eventBurst, QPS: eventsPerSecond}))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	m.last = append(m.last, broadcaster.Shutdown)
	return m.leadership.Recorder(broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})), nil
}

// newKube is called before anything of the manager runs beside it.
func (m *manager) newKube(c *ccmconfig.CompletedConfig) (kube, error) {
	client, err := m.outside.client(c.Kubeconfig)
	if err != nil {
		return kube{}, err
	}
	events, err := m.newRecorder(c)
	return kube{client, events}, err
}

func (s *shared) newNetworks(life context.Context, m *managed) *networks {
	scrubber := credential.NewScrubber(clock.RealClock{})
	scrub := func(text string) string { return string(scrubber.Scrub([]byte(text))) }
	return &networks{
		client: s.client, observer: m.metrics.Egress(), scrubber: scrubber, logger: m.logger.WithName("signer"), life: life, tasks: &m.living,
		signers: &signerLoader{
			client: s.client, engine: s.modules.engine, compiler: s.modules.compiler(m.name), version: version.Get().GitVersion,
			reporter: &signerReporter{teller{logger: m.logger.WithName("signer"), events: s.events, scrub: scrub}},
			trials:   func(name string) rollout.Trials { return m.book.Of(name) },
		},
	}
}

func (s *shared) newLoader(m *managed) *providerLoader {
	flags := s.completed.ComponentConfig.KubeCloudShared
	return &providerLoader{
		tasks: &m.living,
		loader: plugin.Loader{
			Engine:           s.modules.engine,
			Compiler:         s.modules.compiler(m.name),
			ClusterName:      flags.ClusterName,
			HostVersion:      version.Get().GitVersion,
			RequireClusterID: !flags.AllowUntaggedCloud,
			Observer:         m.metrics,
		},
		hosts: &hosts{
			logger: m.logger, events: s.events, client: s.client, allowed: m.allowed, rates: m.rates,
			namespace: s.storeNamespace, metrics: m.metrics,
		},
	}
}

func (s *shared) newSource(p *v1alpha1.Provider) source.Source {
	limits := source.Limits{MaxModule: p.Limits.Module.Value(), ModuleSetting: "providers[].limits.module of the HostConfiguration"}
	src := newSource(s.client, p.Source, limits)
	if file := s.completed.ComponentConfig.KubeCloudShared.CloudProvider.CloudConfigFile; file != "" {
		src = source.WithConfigFile(src, file, limits, source.Watching{})
	}
	return src
}

func newSource(client kubernetes.Interface, s v1alpha1.Source, limits source.Limits) source.Source {
	if s.ConfigMap != nil {
		return source.NewConfigMap(client, types.NamespacedName(*s.ConfigMap), limits)
	}
	return source.NewDir(s.Directory, limits, source.Watching{})
}
