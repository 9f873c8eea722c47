package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/controllers"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/routing"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/kubecache"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/config"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/election"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tracing"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/trials"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
)

const (
	// component is the name in Events and in the User-Agent.
	component = "wasm-cloud-controller-manager"
)

// manager has the parts with the lifetime of the process.
type manager struct {
	options *config.Options
	metrics *metrics.Metrics
	spans   *tracing.Spans
	outside outside
	// work is the context of parts that start others. It ends with the signal,
	// or with cease.
	work    context.Context
	cease   context.CancelFunc
	working tasks.Group
	// loops are the control loops; life is the context of the parts that
	// outlive them, and ends with die.
	loops      *controllers.Loops
	life       context.Context
	die        context.CancelFunc
	living     tasks.Group
	leadership election.Leadership

	// start sets these, after the flags are parsed.
	providers *providers
	router    *routing.Router
	unrouted  func(context.Context)
	unread    func(context.Context)
	trials    *trials.Trials
	pulse     *pulse
	// starting is held while the manager starts, as a signal may end it meanwhile.
	starting sync.Mutex
	leases   *election.Leases
	identity string // unique among managers
	// last are called when all other parts have ended.
	last []func()
}

// newManager builds the parts that exist before the flags are parsed. After the
// end of the context nothing new begins; shutDown waits for the rest.
func newManager(ctx context.Context, options *config.Options, newEngine NewEngine) *manager {
	m := &manager{options: options, outside: realOutside(newEngine), metrics: metrics.New(), spans: tracing.New(component, version.Release()), loops: controllers.NewLoops()}
	m.work, m.cease = context.WithCancel(ctx)
	m.life, m.die = context.WithCancel(context.Background())
	return m
}

// startServing starts the manager, and then serves the secure port.
func (m *manager) startServing(c *ccmconfig.CompletedConfig) error {
	m.starting.Lock()
	defer m.starting.Unlock()
	if err := m.start(c); err != nil {
		return err
	}
	return m.serveSecurely(c)
}

// start watches the sources and serves probes. It runs before leader election,
// so that a standby has its providers ready. After any result shutDown ends the
// started parts.
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
	boundAnswers(c.Kubeconfig)
	m.leases = election.NewLeases(client, c.Kubeconfig)
	spans, err := m.spans.Prepare(m.work, host.Tracing)
	if err != nil {
		return err
	}
	if err := m.spans.Use(m.work, spans); err != nil {
		return err
	}
	m.last = append(m.last, m.closeSpans)
	common, err := m.newShared(c)
	if err != nil {
		return err
	}
	m.trials = common.trials
	m.providers = &providers{
		shared: common, loops: m.loops, work: m.work, life: m.life, living: &m.living, changing: tasks.NewTurn(),
		removed: &removed{kube: common.kube, namespace: common.storeNamespace},
	}
	m.pulse = newPulse()
	m.living.Go("the pulse", func() { m.pulse.run(m.life) })
	m.unrouted = newUnrouted(m.router, common)
	if m.unread, err = newUnread(common); err != nil {
		return err
	}
	if err := m.begin(c, host); err != nil {
		return err
	}
	m.trials.Seal()
	if address := m.options.ProbeBindAddress; address != "0" {
		if err := serveProbes(m.work, &m.working, address, m.serving); err != nil {
			return err
		}
	}
	if file := m.options.ConfigFile; file != "" {
		r := &reloader{providers: m.providers, metrics: m.metrics, spans: m.spans, watchFile: m.outside.watchFile}
		m.working.Go("the reload of the configuration", func() { r.run(klog.NewContext(m.work, klog.Background().WithName("config")), file) })
	}
	return nil
}

// closeSpans sends the remaining spans.
func (m *manager) closeSpans() {
	if err := m.spans.Close(m.life); err != nil {
		klog.ErrorS(err, "The last spans did not reach their collector")
	}
}

// all are the providers; none before they are made.
func (m *manager) all() []*managed {
	if m.providers == nil {
		return nil
	}
	return m.providers.all()
}

// end strikes out this process's trials, so that the next process does not
// suspect their modules. It does not if the process stood still, or cannot end
// a call: then the liveness probe may be ending it, and orderly is false.
func (m *manager) end(ctx context.Context) (orderly bool) {
	m.starting.Lock()
	defer m.starting.Unlock()
	if m.trials == nil {
		return true // it never started
	}
	// Invariant M16 (host/SECURITY.md): marks are struck out by a process that ends as it should,
	// and by no other.
	if err := m.fit(); err != nil {
		klog.ErrorS(err, "The modules on trial will be suspected after the restart")
		return false
	}
	if err := m.trials.Leave(ctx); err != nil {
		klog.ErrorS(err, "The modules on trial were not cleared, and may be suspected after the restart")
	}
	return true
}

// fit returns why the kubelet may have ended this process.
func (m *manager) fit() error {
	if !m.pulse.steady(time.Since(m.pulse.begun)) {
		return fmt.Errorf("this process stood still for more than %v", stall)
	}
	for _, one := range m.all() {
		if err := one.healthy(); err != nil {
			return err
		}
	}
	return nil
}

// serving reports whether any provider serves: a broken one must not make the
// others' manager unready. A standby that waits for the leader is ready, too:
// otherwise the rollout of a new manager would wait for it, while the old
// leader may pass none of its modules.
func (m *manager) serving() bool {
	all := m.all()
	if m.lacks() {
		return false
	}
	for _, one := range all {
		if one.slot.Serving() != nil || one.rollout.Waits() {
			return true
		}
	}
	return len(all) == 0 // CloudProviders may follow
}

// lead begins the leader's tasks.
func (m *manager) lead() {
	m.leadership.Begin()
	looked := make(chan struct{})
	m.working.Go("the look at removed providers", func() {
		defer close(looked)
		m.providers.removed.tell(m.work, m.providers)
	})
	m.providers.lead(looked)
	if objects := m.providers.objects; objects != nil {
		m.working.Go("the statuses of CloudProviders", func() { objects.WriteStatuses(m.work) })
	}
	m.working.Go("the reporter of objects without a provider", func() { m.unrouted(m.work) })
	m.working.Go("the reporter of annotations", func() { m.unread(m.work) })
}

// newUnrouted returns the reporter of objects without a provider, which runs until the
// context ends; it reads all objects again when the rules change. Its informers are its
// own: the first user of shared ones sets the resync period of upstream's loops.
func newUnrouted(router *routing.Router, s *shared) func(context.Context) {
	return func(ctx context.Context) {
		for ctx.Err() == nil {
			ruled, cancel := context.WithCancel(ctx)
			changed := router.Changed()
			ended := context.AfterFunc(ctx, cancel)
			go func() {
				defer cancel()
				select {
				case <-changed:
				case <-ruled.Done():
				}
			}()
			reportUnrouted(ruled, router, s)
			<-ruled.Done()
			ended()
			cancel()
		}
	}
}

func reportUnrouted(ctx context.Context, router *routing.Router, s *shared) {
	var options []informers.SharedInformerOption
	if router.Everything() { // then only a Service of a former owner has no provider
		options = append(options, informers.WithTweakListOptions(func(list *metav1.ListOptions) { list.LabelSelector = routing.ServiceOwnerLabel }))
	}
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, 0, options...)
	core := factory.Core().V1()
	reporter := routing.NewReporter(router, core.Services(), core.Nodes(), s.events,
		routing.Condition{Type: controllers.Programmed, Client: s.completed.ClientBuilder.ClientOrDie(serviceController)})
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if err := reporter.Run(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Objects without a provider are not reported")
	}
}

// newShared builds the parts that the providers share.
func (m *manager) newShared(c *ccmconfig.CompletedConfig) (*shared, error) {
	own, err := m.newKube(c)
	if err != nil {
		return nil, err
	}
	m.last = append(m.last, own.events.end)
	modules, remove, err := m.outside.modules(m.options)
	if err != nil {
		return nil, err
	}
	m.last = append(m.last, remove)
	services := &serviceCIDRs{client: own.client, logger: klog.FromContext(m.work)}
	services.refresh(m.work) // needed for the first decisions
	m.working.Go("the list of ServiceCIDRs", func() { services.run(m.work) })
	name, err := identity(c)
	if err != nil {
		return nil, err
	}
	m.identity = name
	pod := ownPod(own.client, os.Getenv)
	return &shared{
		serviceCIDRs: services, newKube: m.newKube, outside: m.outside,
		storeNamespace: m.options.StoreNamespace, completed: c, kube: own, metrics: m.metrics, spans: m.spans,
		modules: modules, router: m.router, trials: trials.New(trials.Options{
			Manager: name, WhoAmI: accountOf(own.client), Dir: m.options.CompilationCacheDir, Pod: pod.name, Ended: pod.ended,
		}),
		caches: kubecache.New(kubecache.Options{Client: own.client, Go: func(name string, run func(context.Context)) {
			m.living.Go(name, func() { run(m.life) })
		}}),
	}, nil
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

// identity identifies this manager among others, and after a restart: only one
// on its host, or in its pod, has this port.
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

func (s *shared) newNetworks(life context.Context, m *managed) *networks {
	scrubber := credential.NewScrubber(clock.RealClock{})
	scrub := func(text string) string { return string(scrubber.Scrub([]byte(text))) }
	said := teller{logger: m.logger.WithName("signer"), events: m.events, scrub: scrub, object: statusObject(m, s.storeNamespace)}
	refused := func(what, advice string) {
		m.logger.Info("The provider asks for what it has not been granted", "asked", scrub(what), "advice", scrub(advice))
	}
	return &networks{
		client: m.client, caches: s.caches, allowed: m.allowed, refused: refused, observer: callObserver{m.metrics.Egress(), m.calls, s.spans, m.name, m.logger}, scrubber: scrubber, logger: m.logger.WithName("signer"), life: life, tasks: &m.living,
		signers: &signerLoader{
			client: m.client, engines: s.modules.engine, compiler: s.modules.compiler(m.name), version: version.Release(),
			reporter:     &signerReporter{teller{logger: m.logger.WithName("signer"), events: m.events, scrub: scrub}},
			sourceFailed: said.sourceFailed,
			trials:       m.book.Of,
			pulls:        m.book.Pulls(),
		},
	}
}

func (s *shared) newLoader(m *managed) *providerLoader {
	flags := s.completed.ComponentConfig.KubeCloudShared
	return &providerLoader{
		tasks: &m.living, engines: s.modules.engine,
		loader: plugin.Loader{
			Compiler:         s.modules.compiler(m.name),
			ClusterName:      flags.ClusterName,
			HostVersion:      version.Release(),
			RequireClusterID: !flags.AllowUntaggedCloud,
			Observer:         m.metrics,
		},
		hosts: &hosts{
			logger: m.logger, events: m.events, client: m.client, allowed: m.allowed, rates: m.rates,
			namespace: s.storeNamespace, metrics: m.metrics, clients: s.controllers(),
		},
	}
}

// controllers are the clients of the controllers that may change Nodes and
// Services. The first use creates them, as that needs the API server.
func (s *shared) controllers() kubecache.Clients {
	return kubecache.Clients{Nodes: s.controller(nodeController), Services: s.controller(serviceController)}
}

func (s *shared) controller(name string) func() (kubernetes.Interface, error) {
	var mu sync.Mutex
	var made kubernetes.Interface
	return func() (_ kubernetes.Interface, err error) {
		mu.Lock()
		defer mu.Unlock()
		if made == nil {
			made, err = s.completed.ClientBuilder.Client(name)
		}
		return made, err
	}
}

// configFile is the file of --cloud-config, which is for one provider.
func (s *shared) configFile() string {
	return s.completed.ComponentConfig.KubeCloudShared.CloudProvider.CloudConfigFile
}
