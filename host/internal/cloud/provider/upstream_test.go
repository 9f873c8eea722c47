package provider

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	"k8s.io/cloud-provider/controllers/service"
	"k8s.io/component-base/featuregate"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// These tests run upstream's own controllers over the adapter.

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 30*time.Second, true,
		func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// events returns the messages of the events with a reason.
func events(t *testing.T, api *fake.Clientset, reason string) (messages []string) {
	t.Helper()
	list, err := api.CoreV1().Events(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range list.Items {
		if event.Reason == reason {
			messages = append(messages, event.Message)
		}
	}
	return messages
}

func runServiceController(t *testing.T, invoker *fakeInvoker) *fake.Clientset {
	t.Helper()
	api := fake.NewClientset(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	})
	factory := informers.NewSharedInformerFactory(api, 0)
	c, err := service.New(New(invoker), api, factory.Core().V1().Services(), factory.Core().V1().Nodes(), "c", featuregate.NewFeatureGate())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	factory.Start(ctx.Done())
	go c.Run(ctx, 1, controllersmetrics.NewControllerManagerMetrics("test"))
	return api
}

func TestServiceControllerKeepsTheDelay(t *testing.T) {
	var calls atomic.Int32
	var first, second atomic.Int64
	invoker := answer(t, &abi.LoadBalancerEnsureResponse{Status: &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{{Ip: "192.0.2.1"}}}})
	ok := invoker.invoke
	invoker.invoke = func(ctx context.Context, op abi.Op, req, resp abi.Message) error {
		if calls.Add(1) == 1 {
			first.Store(time.Now().UnixNano())
			return &abi.Error{Code: abi.CodeRetryAfter, Message: "in progress", RetryAfter: 1500 * time.Millisecond}
		}
		second.CompareAndSwap(0, time.Now().UnixNano())
		return ok(ctx, op, req, resp)
	}
	api := runServiceController(t, invoker)
	eventually(t, "status", func() bool {
		s, err := api.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && len(s.Status.LoadBalancer.Ingress) == 1
	})
	// Without a RetryError upstream's first back-off is 5 seconds.
	if waited := time.Duration(second.Load() - first.Load()); waited < 1500*time.Millisecond || waited >= 5*time.Second {
		t.Errorf("tried again after %v, want 1.5 s", waited)
	}
}

func TestServiceControllerLeavesTheRestToOthers(t *testing.T) {
	var calls atomic.Int32
	api := runServiceController(t, &fakeInvoker{invoke: func(context.Context, abi.Op, abi.Message, abi.Message) error {
		calls.Add(1)
		return &abi.Error{Code: abi.CodeImplementedElsewhere, Message: "not mine"}
	}})
	eventually(t, "ensured", func() bool { return calls.Load() == 1 })
	eventually(t, "event", func() bool { return len(events(t, api, "EnsuringLoadBalancer")) == 1 })
	if failed := events(t, api, "SyncLoadBalancerFailed"); len(failed) != 0 {
		t.Errorf("upstream took it for a failure: %v", failed)
	}
}

func TestServiceControllerShowsTheMessage(t *testing.T) {
	api := runServiceController(t, fails(&abi.Error{Code: abi.CodeInvalid, Message: "pool public is full"}))
	eventually(t, "event", func() bool { return len(events(t, api, "SyncLoadBalancerFailed")) > 0 })
	if got := events(t, api, "SyncLoadBalancerFailed")[0]; !strings.Contains(got, "lb_ensure default/web: pool public is full") {
		t.Errorf("event %q", got)
	}
}

func TestNodeControllerSurvivesNoMetadata(t *testing.T) {
	tainted := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{
		{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}}}
	api := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old"}}, tainted)
	factory := informers.NewSharedInformerFactory(api, 0)
	var empty atomic.Bool
	empty.Store(true)
	asked := make(chan string, 1000)
	good := answer(t, &abi.InstanceMetadataResponse{Metadata: &abi.InstanceMetadata{ProviderId: "fake://new", Zone: "z1"}})
	invoker := &fakeInvoker{invoke: func(ctx context.Context, op abi.Op, req, resp abi.Message) error {
		asked <- req.(*abi.InstanceRequest).Node.Name
		if empty.Load() {
			return nil // an empty response: no metadata
		}
		return good.invoke(ctx, op, req, resp)
	}}
	c, err := node.NewCloudNodeController(factory.Core().V1().Nodes(), api, New(invoker), 10*time.Millisecond, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	factory.Start(ctx.Done())
	go c.RunWithContext(ctx, controllersmetrics.NewControllerManagerMetrics("test"))
	// UpdateNodeStatus asks for the old node, syncNode for the new one.
	for seen := map[string]bool{}; !seen["old"] || !seen["new"]; {
		seen[<-asked] = true
	}
	if n, err := api.CoreV1().Nodes().Get(t.Context(), "new", metav1.GetOptions{}); err != nil || len(n.Spec.Taints) != 1 {
		t.Errorf("the taint is gone without metadata: %v, %v", n.Spec.Taints, err)
	}
	empty.Store(false)
	eventually(t, "initialised", func() bool {
		n, err := api.CoreV1().Nodes().Get(t.Context(), "new", metav1.GetOptions{})
		return err == nil && len(n.Spec.Taints) == 0 && n.Labels[corev1.LabelTopologyZone] == "z1"
	})
}

func TestLifecycleControllerDeletesOnTheExplicitAnswerOnly(t *testing.T) {
	tests := map[string]struct {
		invoker *fakeInvoker
		deleted bool
	}{
		"does not exist":     {answer(t, &abi.InstanceExistsResponse{Existence: abi.Existence_EXISTENCE_DOES_NOT_EXIST}), true},
		"empty answer":       {answer(t, &abi.InstanceExistsResponse{}), false},
		"not_found":          {fails(&abi.Error{Code: abi.CodeNotFound}), false},
		"instance_not_found": {fails(&abi.Error{Code: abi.CodeInstanceNotFound}), false},
		"not_implemented":    {fails(&abi.Error{Code: abi.CodeNotImplemented}), false},
		"time is over":       {fails(context.DeadlineExceeded), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			api := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}) // no Ready condition
			factory := informers.NewSharedInformerFactory(api, 0)
			c, err := nodelifecycle.NewCloudNodeLifecycleController(factory.Core().V1().Nodes(), api, New(test.invoker), time.Hour, 1)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(func() {
				cancel()
				factory.Shutdown()
			})
			informer := factory.Core().V1().Nodes().Informer()
			factory.Start(ctx.Done())
			eventually(t, "synced", informer.HasSynced)
			// Run's first round, with its event recorder; the next is an hour away.
			go c.Run(ctx, controllersmetrics.NewControllerManagerMetrics("test"))
			gone := func() bool {
				_, err := api.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
				return apierrors.IsNotFound(err)
			}
			if test.deleted {
				eventually(t, "deleted", gone)
				return
			}
			c.MonitorNodes(ctx) // blocks until every node was looked at
			if gone() {
				t.Error("the Node was deleted")
			}
		})
	}
}
