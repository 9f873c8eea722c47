package async_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/controllers/service"
	servicehelper "k8s.io/cloud-provider/service/helpers"
	"k8s.io/component-base/featuregate"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/async"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/provider"
)

// cloud is a provider in which ops take as long as latency says; a negative
// one hangs until the op's time (30 s) is over.
type cloud struct {
	latency func(op abi.Op, service string) time.Duration

	mu      sync.Mutex
	began   time.Time // the first call
	there   map[string]bool
	running map[string]int
	calls   map[string]int // by op and service
	ensured map[string]time.Time
	clashes []string
}

func newCloud(latency func(abi.Op, string) time.Duration) *cloud {
	return &cloud{
		latency: latency, there: map[string]bool{}, running: map[string]int{}, calls: map[string]int{}, ensured: map[string]time.Time{},
	}
}

func (*cloud) Supports(abi.Op) bool { return true }
func (*cloud) ProviderName() string { return "fake" }
func (*cloud) HasClusterID() bool   { return true }

func (c *cloud) InvokeFresh(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return c.Invoke(ctx, op, req, resp)
}

func (c *cloud) Invoke(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	name := req.(*abi.LoadBalancerRequest).Service.Name
	c.enter(op, name)
	err := c.wait(ctx, c.latency(op, name))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[name]--
	if err != nil {
		return err
	}
	switch r := resp.(type) {
	case *abi.LoadBalancerGetResponse:
		r.Existence = abi.Existence_EXISTENCE_DOES_NOT_EXIST
		if c.there[name] {
			r.Existence = abi.Existence_EXISTENCE_EXISTS
			r.Status = status()
		}
	case *abi.LoadBalancerEnsureResponse:
		c.there[name] = true
		c.ensured[name] = time.Now()
		r.Status = status()
	case *abi.Done:
		if op == abi.OpLoadBalancerDelete {
			delete(c.there, name)
		}
		r.Done = true
	}
	return nil
}

func status() *abi.LoadBalancerStatus {
	return &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{{Ip: "192.0.2.1"}}}
}

func (c *cloud) enter(op abi.Op, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[name]++
	if c.began.IsZero() {
		c.began = time.Now()
	}
	c.calls[op.String()+" "+name]++
	if c.running[name] > 1 {
		c.clashes = append(c.clashes, op.String()+" "+name)
	}
}

func (*cloud) wait(ctx context.Context, d time.Duration) error {
	if d < 0 {
		d = time.Hour
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second) // as plugin.Slot
	defer cancel()
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the provider did not answer within 30s: %w", ctx.Err())
	}
}

func (c *cloud) count(call string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[call]
}

func balanced(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
}

// slowAPI is an API server that takes 5 ms to write a Service. (The fake one
// holds a lock in its reactors.)
type slowAPI struct{ kubernetes.Interface }

func (a slowAPI) CoreV1() typedcorev1.CoreV1Interface { return slowCore{a.Interface.CoreV1()} }

type slowCore struct{ typedcorev1.CoreV1Interface }

func (c slowCore) Services(namespace string) typedcorev1.ServiceInterface {
	return slowServices{c.CoreV1Interface.Services(namespace)}
}

type slowServices struct{ typedcorev1.ServiceInterface }

func (s slowServices) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, sub ...string) (*corev1.Service, error) {
	time.Sleep(5 * time.Millisecond)
	return s.ServiceInterface.Patch(ctx, name, kind, data, options, sub...)
}

// patientCloud waits for the end of its calls, as the manager's loops have it.
type patientCloud struct{ cloudprovider.Interface }

func (c patientCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	balancer, ok := c.Interface.LoadBalancer()
	return patientBalancer{balancer}, ok
}

type patientBalancer struct{ cloudprovider.LoadBalancer }

func (b patientBalancer) GetLoadBalancer(ctx context.Context, cluster string, s *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	return b.LoadBalancer.GetLoadBalancer(opcontext.WithPatience(ctx), cluster, s)
}

func (b patientBalancer) EnsureLoadBalancer(ctx context.Context, cluster string, s *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	return b.LoadBalancer.EnsureLoadBalancer(opcontext.WithPatience(ctx), cluster, s, nodes)
}

func (b patientBalancer) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, s *corev1.Service) error {
	return b.LoadBalancer.EnsureLoadBalancerDeleted(opcontext.WithPatience(ctx), cluster, s)
}

// runServices runs upstream's service controller with the workers of a loop over the
// cloud, for a time, with an API server that takes 5 ms for each write. It must
// be called in a bubble.
func runServices(t *testing.T, c *cloud, options async.Options, d time.Duration, services ...*corev1.Service) *fake.Clientset {
	t.Helper()
	var objects []runtime.Object
	for _, s := range services {
		objects = append(objects, s)
	}
	api := fake.NewClientset(objects...)
	invoker := async.New(c, options)
	factory := informers.NewSharedInformerFactory(api, 0)
	controller, err := service.New(patientCloud{provider.New(invoker)}, slowAPI{api}, factory.Core().V1().Services(), factory.Core().V1().Nodes(), "c", featuregate.NewFeatureGate())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	factory.Start(ctx.Done())
	controller.Run(ctx, 64, controllersmetrics.NewControllerManagerMetrics("test"))
	factory.Shutdown()
	if err := invoker.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if len(c.clashes) != 0 {
		t.Errorf("at the same time on one Service: %v", c.clashes)
	}
	return api
}

// TestOneThatHangsBesideAHundred is the promise: one that hangs takes its instance
// from the others, and nothing else. A change that hangs has it for the time of an op, as one
// that is ended may be half done.
func TestOneThatHangsBesideAHundred(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	for _, latency := range []time.Duration{time.Millisecond, 300 * time.Millisecond, 5 * time.Second} {
		t.Run(latency.String(), func(t *testing.T) {
			alone := hundred(t, latency, "")
			for _, first := range []string{"a-hangs", "svc-050-hangs"} {
				beside := hundred(t, latency, first)
				t.Logf("%s: %v, without it %v: ratio %.3f", first, beside, alone, float64(beside)/float64(alone))
				if beside > alone*8/7+latency { // of eight instances
					t.Errorf("%s: %v, without it %v", first, beside, alone)
				}
			}
		})
	}
}

// hundred returns how long 100 Services need from the first call on, beside one
// that hangs if it has a name. The controller looks for its caches every 100 ms,
// which is not counted.
func hundred(t *testing.T, latency time.Duration, hanging string) (took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(func(_ abi.Op, service string) time.Duration {
			if service == hanging {
				return -1
			}
			return latency
		})
		var services []*corev1.Service
		for n := range 100 {
			services = append(services, balanced(fmt.Sprintf("svc-%03d", n)))
		}
		if hanging != "" {
			services = append(services, balanced(hanging))
		}
		slices.SortFunc(services, func(a, b *corev1.Service) int { return strings.Compare(a.Name, b.Name) })
		runServices(t, c, async.Options{}, 15*time.Minute, services...)
		if len(c.ensured) != 100 {
			t.Errorf("%d of 100 Services are ensured", len(c.ensured))
		}
		for _, at := range c.ensured {
			took = max(took, at.Sub(c.began))
		}
		if hanging != "" && c.calls["lb_ensure "+hanging] < 3 {
			t.Errorf("the one that hangs was asked %d times in 15 minutes", c.calls["lb_ensure "+hanging])
		}
	})
	return took
}

func TestALongDeletionEndsWithTheFinalizerRemoved(t *testing.T) {
	for _, takes := range []time.Duration{time.Second, 5 * time.Second, 20 * time.Second} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCloud(func(op abi.Op, _ string) time.Duration {
					if op == abi.OpLoadBalancerDelete {
						return takes
					}
					return 10 * time.Millisecond
				})
				c.there["web"] = true
				s := balanced("web")
				now := metav1.Now()
				s.DeletionTimestamp = &now
				s.Finalizers = []string{servicehelper.LoadBalancerCleanupFinalizer}
				api := runServices(t, c, async.Options{}, 10*time.Minute, s)
				left, err := api.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
				if err != nil || len(left.Finalizers) != 0 {
					t.Errorf("finalizers %v, %v", left.Finalizers, err)
				}
				if n := c.count("lb_delete web"); n != 1 {
					t.Errorf("%d deletions", n)
				}
			})
		})
	}
}

func TestTheReasonOfALateFailureArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(func(op abi.Op, _ string) time.Duration {
			if op == abi.OpLoadBalancerDelete {
				return -1
			}
			return 10 * time.Millisecond
		})
		c.there["web"] = true
		s := balanced("web")
		now := metav1.Now()
		s.DeletionTimestamp = &now
		s.Finalizers = []string{servicehelper.LoadBalancerCleanupFinalizer}
		api := runServices(t, c, async.Options{}, 10*time.Minute, s)
		left, err := api.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil || len(left.Finalizers) != 1 {
			t.Errorf("finalizers %v, %v: the load balancer is still there", left.Finalizers, err)
		}
		list, err := api.CoreV1().Events(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(list.Items, func(e corev1.Event) bool {
			return strings.Contains(e.Message, "the provider did not answer within 30s")
		}) {
			t.Error("no Event says why")
		}
	})
}

// A node is added while the load balancer is being made for the nodes before.
func TestALongEnsureIsRepeatedForOtherNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var longOnce atomic.Bool
		c := newCloud(func(op abi.Op, _ string) time.Duration {
			if op == abi.OpLoadBalancerEnsure && longOnce.CompareAndSwap(false, true) {
				return 20 * time.Second
			}
			return 10 * time.Millisecond
		})
		api := runServices(t, c, async.Options{}, 5*time.Minute, balanced("web"))
		s, err := api.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil || len(s.Status.LoadBalancer.Ingress) != 1 {
			t.Errorf("status %v, %v", s.Status, err)
		}
		if n := c.count("lb_ensure web"); n != 1 {
			t.Errorf("%d ensures for the same nodes, want 1: the result was handed over", n)
		}
	})
}
