package brake_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/async"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/brake"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/provider"
)

// gone says of the first 15 Nodes that their instances do not exist; fresh
// instances of it may say something else, or nothing in time.
type gone struct {
	second abi.Existence
	takes  time.Duration
	all    bool // also the first question takes that long
}

func (*gone) Supports(abi.Op) bool { return true }
func (*gone) ProviderName() string { return "fake" }
func (*gone) HasClusterID() bool   { return true }

func (g *gone) Invoke(ctx context.Context, _ abi.Op, req, resp abi.Message) error {
	if g.all {
		if err := g.wait(ctx); err != nil {
			return err
		}
	}
	answer(req, resp, abi.Existence_EXISTENCE_DOES_NOT_EXIST)
	return nil
}

func (g *gone) InvokeFresh(ctx context.Context, _ abi.Op, req, resp abi.Message) error {
	if err := g.wait(ctx); err != nil {
		return err
	}
	answer(req, resp, g.second)
	return nil
}

func (g *gone) wait(ctx context.Context) error {
	select {
	case <-time.After(g.takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func answer(req, resp abi.Message, gone abi.Existence) {
	e := abi.Existence_EXISTENCE_EXISTS
	if req.(*abi.InstanceRequest).Node.Name < "n015" {
		e = gone
	}
	if r, ok := resp.(*abi.InstanceExistsResponse); ok {
		r.Existence = e
	}
}

// left returns how many of 200 nodes are left after an hour of upstream's
// lifecycle controller with its own period.
func left(t *testing.T, guest *gone) (nodes int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var objects []runtime.Object
		for n := range 200 {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%03d", n)}}
			node.Spec.ProviderID = "fake://" + node.Name
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			if n < 15 {
				node.Status.Conditions[0].Status = corev1.ConditionUnknown
			}
			objects = append(objects, node)
		}
		api := fake.NewClientset(objects...)
		factory := informers.NewSharedInformerFactory(api, 0)
		informer := factory.Core().V1().Nodes()
		options := brake.Options{Limits: shipped(), Clock: clock.RealClock{}}
		options.Cluster = func() corelisters.NodeLister { return informer.Lister() }
		invoker := async.New(guest, async.Options{})
		cloud := provider.New(invoker, provider.WithInstances(func(i provider.Instances) cloudprovider.InstancesV2 {
			return brake.New(i, options)
		}))
		c, err := nodelifecycle.NewCloudNodeLifecycleController(informer, api, cloud, 5*time.Second, 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		informer.Informer()
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		c.Run(ctx, controllersmetrics.NewControllerManagerMetrics("test"))
		factory.Shutdown()
		if err := invoker.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		list, err := api.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		nodes = len(list.Items)
	})
	return nodes
}

// The brake asks several questions on the way to a deletion, and async answers
// those that take long at another time.
func TestTheLifecycleControllerAndQuestionsThatTakeTheirTime(t *testing.T) {
	const missing, there = abi.Existence_EXISTENCE_DOES_NOT_EXIST, abi.Existence_EXISTENCE_EXISTS
	for name, test := range map[string]struct {
		guest *gone
		left  int
	}{
		"twice":                                {&gone{second: missing}, 185},
		"then there":                           {&gone{second: there}, 200},
		"then nothing":                         {&gone{}, 200},
		"then nothing in time":                 {&gone{second: missing, takes: time.Hour}, 200},
		"twice, but a fresh instance is slow":  {&gone{second: missing, takes: 3 * time.Second}, 185},
		"twice, but all is slow":               {&gone{second: missing, takes: 3 * time.Second, all: true}, 185},
		"twice, but it takes longer than 10 s": {&gone{second: missing, takes: 12 * time.Second}, 185},
	} {
		t.Run(name, func(t *testing.T) {
			if n := left(t, test.guest); n != test.left {
				t.Errorf("%d nodes are left, want %d", n, test.left)
			}
		})
	}
}
