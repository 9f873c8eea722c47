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

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/async"
	"github.com/wasm-ccm/wasm-ccm/host/brake"
	"github.com/wasm-ccm/wasm-ccm/host/provider"
)

// gone says of every instance that it does not exist; fresh instances of it
// may say something else, or nothing in time.
type gone struct {
	second abi.Existence
	takes  time.Duration
}

func (*gone) Supports(abi.Op) bool { return true }
func (*gone) ProviderName() string { return "fake" }
func (*gone) HasClusterID() bool   { return true }

func (*gone) Invoke(_ context.Context, _ abi.Op, _, resp abi.Message) error {
	resp.(*abi.InstanceExistsResponse).Existence = abi.Existence_EXISTENCE_DOES_NOT_EXIST
	return nil
}

func (g *gone) InvokeFresh(ctx context.Context, _ abi.Op, _, resp abi.Message) error {
	select {
	case <-time.After(g.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	resp.(*abi.InstanceExistsResponse).Existence = g.second
	return nil
}

// left returns how many of 200 nodes are left after two hours of upstream's
// lifecycle controller.
func left(t *testing.T, guest *gone, settle time.Duration) (nodes int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var objects []runtime.Object
		for n := range 200 {
			objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%03d", n)}})
		}
		api := fake.NewClientset(objects...)
		factory := informers.NewSharedInformerFactory(api, 0)
		informer := factory.Core().V1().Nodes()
		options := brake.DefaultOptions()
		options.Settle = settle
		options.Cluster = func() corelisters.NodeLister { return informer.Lister() }
		invoker := async.New(guest, async.Options{})
		cloud := provider.New(invoker, provider.WithInstances(func(i provider.Instances) cloudprovider.InstancesV2 {
			return brake.New(i, options)
		}))
		c, err := nodelifecycle.NewCloudNodeLifecycleController(informer, api, cloud, time.Minute, 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Hour)
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

func TestTheLifecycleControllerAndAProviderThatSaysAllAreGone(t *testing.T) {
	const missing, there = abi.Existence_EXISTENCE_DOES_NOT_EXIST, abi.Existence_EXISTENCE_EXISTS
	for name, test := range map[string]struct {
		guest  *gone
		settle time.Duration
		left   int
	}{
		"twice":                         {&gone{second: missing}, 0, 180},
		"twice, after settling":         {&gone{second: missing}, 90 * time.Second, 200},
		"then there":                    {&gone{second: there}, 0, 200},
		"then nothing":                  {&gone{}, 0, 200},
		"then nothing in time":          {&gone{second: missing, takes: time.Hour}, 0, 200},
		"twice, but the second is slow": {&gone{second: missing, takes: 5 * time.Second}, 0, 180},
	} {
		t.Run(name, func(t *testing.T) {
			if n := left(t, test.guest, test.settle); n != test.left {
				t.Errorf("%d nodes are left, want %d", n, test.left)
			}
		})
	}
}
