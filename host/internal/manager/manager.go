package manager

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/controllers"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/routing"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/kubecache"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/config"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/election"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tracing"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/trials"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
)

// controllerManager has the parts with the lifetime of the process.
type controllerManager struct {
	options   *config.Options
	metrics   *metrics.Metrics
	spans     *tracing.Spans
	outside   outside
	*lifetime // work ends with the signal, or with stop; life is longer than that of the control loops
	loops     *controllers.Loops
	pulse     *pulse
	electionCandidate

	// start sets these, after the flags are parsed.
	providers *providerSet
	router    *routing.Router
	// leading are the leader's tasks beside those of its providers.
	leading []task
	trials  *trials.Trials
	// starting is held while the manager starts, as a signal may end it meanwhile.
	starting sync.Mutex
	// last are called when all other parts have ended.
	last []func()
}

// electionCandidate is this manager among others.
type electionCandidate struct {
	identity   string // also after a restart
	leadership election.Leadership
	leases     *election.Leases
}

// task is a task with its name in errors.
type task struct {
	name string
	run  func(context.Context)
}

// newManager builds the parts that exist before the flags are parsed. After the
// end of the context nothing new begins; shutDown waits for the rest.
func newManager(ctx context.Context, options *config.Options, newEngine NewEngine) *controllerManager {
	return &controllerManager{
		options: options, outside: realOutside(newEngine), metrics: metrics.New(), spans: tracing.New(component, version.Release()),
		loops: controllers.NewLoops(), lifetime: newLifetime(ctx, context.Background()), pulse: newPulse(),
	}
}

// start watches the sources and serves probes. It runs before leader election,
// so that a standby has its providers ready. After any result shutDown ends the
// started parts.
func (m *controllerManager) start(c *ccmconfig.CompletedConfig) error {
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
	m.providers = &providerSet{
		shared: common, loops: m.loops, lifetime: m.lifetime, changing: tasks.NewTurn(),
		removed: &removalReporter{kube: common.kube, namespace: common.storeNamespace},
	}
	m.living.Go("the pulse", func() { m.pulse.run(m.life) })
	unread, err := newUnread(common)
	if err != nil {
		return err
	}
	m.leading = []task{{"the reporter of objects without a provider", newUnrouted(m.router, common)}, {"the reporter of annotations", unread}}
	if err := m.providers.start(host); err != nil {
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
func (m *controllerManager) closeSpans() {
	if err := m.spans.Close(m.life); err != nil {
		klog.ErrorS(err, "The last spans did not reach their collector")
	}
}

// all are the providers; none before they are made.
func (m *controllerManager) all() []*managed {
	if m.providers == nil {
		return nil
	}
	return m.providers.all()
}

// end strikes out this process's trials, so that the next process does not
// suspect their modules. It does not if the process stood still, or cannot end
// a call: then the liveness probe may be ending it, and orderly is false.
func (m *controllerManager) end(ctx context.Context) (orderly bool) {
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
func (m *controllerManager) fit() error {
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
func (m *controllerManager) serving() bool {
	all := m.all()
	if m.providers != nil && m.providers.lacks() {
		return false
	}
	for _, one := range all {
		if one.slot.Serving() != nil || one.rollout.Waits() {
			return true
		}
	}
	return len(all) == 0 // CloudProviders may follow
}

// cloud returns the cloud for upstream's command.
func (m *controllerManager) cloud() cloudprovider.Interface { return leader{sync.OnceFunc(m.lead)} }

// lead begins the leader's tasks.
func (m *controllerManager) lead() {
	m.leadership.Begin()
	looked := make(chan struct{})
	m.working.Go("the look at removed providers", func() {
		defer close(looked)
		m.providers.removed.tell(m.work, m.providers.all(), m.providers.configured)
	})
	m.providers.lead(looked)
	if objects := m.providers.objects; objects != nil {
		m.working.Go("the statuses of CloudProviders", func() { objects.WriteStatuses(m.work) })
	}
	for _, t := range m.leading {
		m.working.Go(t.name, func() { t.run(m.work) })
	}
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
func (m *controllerManager) newShared(c *ccmconfig.CompletedConfig) (*shared, error) {
	all := &kubes{client: m.outside.client, leadership: &m.leadership, life: m.life}
	own, err := all.new(c.Kubeconfig)
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
		serviceCIDRs: services, kubes: all, outside: m.outside,
		storeNamespace: m.options.StoreNamespace, completed: c, kube: own, metrics: m.metrics, spans: m.spans,
		modules: modules, router: m.router, trials: trials.New(trials.Options{
			Manager: name, WhoAmI: accountOf(own.client), Dir: m.options.CompilationCacheDir, Pod: pod.name, Ended: pod.ended,
		}),
		caches: kubecache.New(kubecache.Options{Client: own.client, Go: func(name string, run func(context.Context)) {
			m.living.Go(name, func() { run(m.life) })
		}}),
	}, nil
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
