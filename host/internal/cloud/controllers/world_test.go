package controllers

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	controllermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// TestMain takes away the process-wide pause after each error: it compares the
// time of one bubble with that of another.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	os.Exit(m.Run())
}

// world is an API server and a manager that leads. It lives in a bubble of
// synctest, so its time costs none.
type world struct {
	t         *testing.T
	api       *fake.Clientset
	builder   *builder
	completed *config.CompletedConfig
	metrics   *controllersmetrics.ControllerManagerMetrics
	log       ktesting.Buffer
	// blind hides every Node from the service loops. A test that starts one
	// while there are Services and Nodes must set it; ../RATIONALE.md says why.
	blind  bool
	loops  *Loops
	ctx    context.Context
	cancel context.CancelFunc
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	api := fake.NewClientset(objects...)
	w := &world{t: t, api: api, builder: &builder{api: api}, metrics: controllersmetrics.NewControllerManagerMetrics("test")}
	c := &config.Config{ClientBuilder: w.builder, SharedInformers: informers.NewSharedInformerFactory(api, 12*time.Hour)}
	cc := &c.ComponentConfig
	cc.KubeCloudShared.ConfigureCloudRoutes, cc.KubeCloudShared.ClusterCIDR = true, "10.0.0.0/8"
	cc.KubeCloudShared.RouteReconciliationPeriod.Duration = 10 * time.Second
	cc.NodeStatusUpdateFrequency.Duration = 10 * time.Second
	cc.NodeController.ConcurrentNodeSyncs, cc.NodeController.ConcurrentNodeStatusUpdates = 1, 1
	cc.NodeLifecycleController.NodeMonitorPeriod.Duration = 5 * time.Second
	cc.NodeLifecycleController.ConcurrentNodeLifecycleSyncs = 1
	cc.ServiceController.ConcurrentServiceSyncs = 1
	w.completed = c.Complete()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	w.log = logger.GetSink().(ktesting.Underlier).GetBuffer()
	w.ctx, w.cancel = context.WithCancel(klog.NewContext(t.Context(), logger))
	return w
}

// start does what upstream's manager does once it leads.
func (w *world) start(providers ...Provider) map[string]controller.Interface {
	w.t.Helper()
	started := map[string]controller.Interface{}
	w.loops = NewLoops()
	for _, p := range providers {
		w.loops.Add(p)
	}
	for name, constructor := range w.constructors() {
		init := constructor.Constructor(constructor.InitContext, w.completed, nil)
		c, ok, err := init(w.ctx, controllermanager.ControllerContext{ControllerManagerMetrics: w.metrics})
		if err != nil || !ok || c == nil {
			w.t.Fatalf("%s: %v, started %v, error %v", name, c, ok, err)
		}
		started[name] = c
	}
	w.completed.SharedInformers.Start(w.ctx.Done())
	return started
}

func (w *world) constructors() map[string]app.ControllerInitFuncConstructor {
	w.t.Helper()
	all := w.loops.Constructors()
	if !w.blind {
		w.mustNotRace()
		return all
	}
	for _, l := range loops() {
		if l.name == names.ServiceLBController {
			l.nodes = func(Provider) func(*corev1.Node) bool { return func(*corev1.Node) bool { return false } }
			all[l.name] = l.constructor(w.loops)
		}
	}
	return all
}

// mustNotRace fails a test in which upstream's service controller would sync a
// Service for the first time while it gets its first Nodes.
func (w *world) mustNotRace() {
	w.t.Helper()
	services, err := w.api.CoreV1().Services("").List(w.t.Context(), metav1.ListOptions{})
	nodes, err2 := w.api.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
	if err := errors.Join(err, err2); err != nil {
		w.t.Fatal(err)
	}
	if len(services.Items) > 0 && len(nodes.Items) > 0 {
		w.t.Fatal("Services and Nodes at the start of a service loop: set blind, or make the Services when the loop is idle")
	}
}

// sleep lets a minute go by, in which every loop has its turn.
func (w *world) sleep() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

// stop ends the manager; synctest fails if a goroutine of it stays.
func (w *world) stop() {
	w.cancel()
	w.completed.SharedInformers.Shutdown()
	w.sleep()
}

func (w *world) logged(words ...string) (n int) {
	for line := range strings.Lines(w.log.String()) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			n++
		}
	}
	return n
}

func (w *world) changeService(name string, port int32) {
	w.t.Helper()
	s, err := w.api.CoreV1().Services("default").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	s.Spec.Ports = []corev1.ServicePort{{Port: port}}
	if _, err := w.api.CoreV1().Services("default").Update(w.t.Context(), s, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// builder is a ClientBuilder of one client, which fails a number of times.
type builder struct {
	cloudprovider.ControllerClientBuilder
	api      kubernetes.Interface
	mu       sync.Mutex
	failures int
	made     map[string]int
}

func (b *builder) Client(name string) (kubernetes.Interface, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures > 0 {
		b.failures--
		return nil, errors.New("no token yet")
	}
	if b.made == nil {
		b.made = map[string]int{}
	}
	b.made[name]++
	return b.api, nil
}

func (*builder) ClientOrDie(string) kubernetes.Interface {
	panic("the real one ends the process when there is no client")
}

// cloud is a provider. Its own objects are those whose name begins with its
// name and "-"; no instance of it exists.
type cloud struct {
	cloudprovider.Interface
	name string
	// hang says which calls hang until their context ends.
	hang func(call string) bool
	// notMine: it leaves every Node alone.
	notMine bool
	// latency is how long any other call takes.
	latency time.Duration

	mu                                  sync.Mutex
	balancer, instances, route, volumes bool
	changed                             chan struct{}
	calls                               map[string]int
}

func newCloud(name string) *cloud {
	return &cloud{name: name, balancer: true, instances: true, route: true, volumes: true, changed: make(chan struct{}), calls: map[string]int{}}
}

func (c *cloud) provider() Provider {
	return Provider{
		Name: c.name, Cloud: c, Volumes: c, Changed: c.Changed,
		Nodes:             func(n *corev1.Node) bool { return c.owns(n.Name) },
		OwnedNodes:        func(n *corev1.Node) bool { return c.owns(n.Name) && n.Spec.ProviderID != "" },
		Services:          func(s *corev1.Service) bool { return c.owns(s.Name) },
		PersistentVolumes: func(v *corev1.PersistentVolume) bool { return c.owns(v.Name) },
	}
}

func (c *cloud) owns(name string) bool { return strings.HasPrefix(name, c.name+"-") }

// has makes another generation serve.
func (c *cloud) has(balancer, instances, routes, volumes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.balancer, c.instances, c.route, c.volumes = balancer, instances, routes, volumes
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *cloud) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

func (c *cloud) call(ctx context.Context, call string) error {
	c.mu.Lock()
	c.calls[call]++
	c.mu.Unlock()
	if c.hang != nil && c.hang(call) {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	time.Sleep(c.latency)
	return nil
}

func (c *cloud) count(prefix string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for call, times := range c.calls {
		if strings.HasPrefix(call, prefix) {
			n += times
		}
	}
	return n
}

// seen returns the calls, sorted.
func (c *cloud) seen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.calls))
}

func (c *cloud) can(capability *bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *capability
}

func (c *cloud) ProviderName() string                             { return c.name }
func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c, c.can(&c.balancer) }
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool)   { return c, c.can(&c.instances) }
func (c *cloud) Routes() (cloudprovider.Routes, bool)             { return c, c.can(&c.route) }
func (c *cloud) Supports() bool                                   { return c.can(&c.volumes) }

func (c *cloud) GetLoadBalancerName(context.Context, string, *corev1.Service) string { return "" }

func (c *cloud) GetLoadBalancer(ctx context.Context, _ string, s *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	return &corev1.LoadBalancerStatus{}, true, c.call(ctx, "get "+s.Name)
}

func (c *cloud) EnsureLoadBalancer(ctx context.Context, _ string, s *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	return &corev1.LoadBalancerStatus{}, c.call(ctx, "ensure "+s.Name+nodeNames(nodes))
}

func (c *cloud) UpdateLoadBalancer(ctx context.Context, _ string, s *corev1.Service, nodes []*corev1.Node) error {
	return c.call(ctx, "update "+s.Name+nodeNames(nodes))
}

func (c *cloud) EnsureLoadBalancerDeleted(ctx context.Context, _ string, s *corev1.Service) error {
	return c.call(ctx, "delete "+s.Name)
}

func nodeNames(nodes []*corev1.Node) (names string) {
	var all []string
	for _, n := range nodes {
		all = append(all, " "+n.Name)
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

func (c *cloud) InstanceExists(ctx context.Context, n *corev1.Node) (bool, error) {
	return false, c.call(ctx, "exists "+n.Name)
}

func (c *cloud) InstanceShutdown(ctx context.Context, n *corev1.Node) (bool, error) {
	return false, c.call(ctx, "shutdown "+n.Name)
}

func (c *cloud) InstanceMetadata(ctx context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	if c.notMine {
		return nil, c.call(ctx, "metadata "+n.Name)
	}
	return &cloudprovider.InstanceMetadata{ProviderID: c.name + "://" + n.Name}, c.call(ctx, "metadata "+n.Name)
}

func (c *cloud) ListRoutes(ctx context.Context, _ string) ([]*cloudprovider.Route, error) {
	return nil, c.call(ctx, "list routes")
}

func (c *cloud) CreateRoute(ctx context.Context, _, _ string, r *cloudprovider.Route) error {
	return c.call(ctx, "route "+string(r.TargetNode))
}

func (c *cloud) DeleteRoute(ctx context.Context, _ string, r *cloudprovider.Route) error {
	return c.call(ctx, "delete route "+string(r.TargetNode))
}

func (c *cloud) GetLabelsForVolume(ctx context.Context, pv *corev1.PersistentVolume) (map[string]string, error) {
	return map[string]string{corev1.LabelTopologyZone: c.name}, c.call(ctx, "labels "+pv.Name)
}

func balanced(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
}

func node(name, providerID string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{ProviderID: providerID, PodCIDRs: []string{"10.0.0.0/24"}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
	}
}

func volume(name string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
