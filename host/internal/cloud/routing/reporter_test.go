package routing

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	cloudproviderapi "k8s.io/cloud-provider/api"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
)

func tainted(n *corev1.Node) *corev1.Node {
	n = n.DeepCopy()
	n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Effect: corev1.TaintEffectNoSchedule}}
	return n
}

func TestNobodys(t *testing.T) {
	type change = func(*corev1.Service)
	class := "x"
	clusterIP := func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }
	finalizer := func(s *corev1.Service) { s.Finalizers = []string{servicehelpers.LoadBalancerCleanupFinalizer} }
	deleted := func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{} }
	services := map[string]struct {
		service *corev1.Service
		changes []change
		want    string // in the Event; "" is not nobody's
	}{
		"a's":                       {service("", "a"), nil, ""},
		"names nobody":              {service("", ""), nil, "no annotation wasm-ccm.dev/provider, and no provider is the default for Services (routing.services.default). Set the annotation to one of: a, b"},
		"names an unknown one":      {service("", "x"), nil, `annotation wasm-ccm.dev/provider says "x", which is no provider of this manager (it has: a, b)`},
		"owner is gone":             {service("x", "a"), nil, `label wasm-ccm.dev/load-balancer-provider says "x", which is no provider of this manager (it has: a, b)`},
		"another controller's":      {service("", ""), []change{func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class }}, ""},
		"no load balancer":          {service("", ""), []change{clusterIP}, ""},
		"somebody's finalizer":      {service("", ""), []change{clusterIP, finalizer}, ""},
		"cannot be deleted":         {service("", ""), []change{clusterIP, finalizer, deleted}, "Set the annotation"},
		"load balancer left behind": {service("x", ""), []change{clusterIP, finalizer}, "its load balancer is gone, remove the label"},
	}
	r := mustNew(t, Rules{Provider: "b"}, Rules{Provider: "a"})
	for name, test := range services {
		t.Run(name, func(t *testing.T) {
			for _, change := range test.changes {
				change(test.service)
			}
			checkAdvice(t, r.UnroutedService(test.service), r.adviseService(test.service), test.want)
		})
	}
	asking := mustNew(t, Rules{Provider: "b", AskNodes: true}, Rules{Provider: "a"})
	nodes := map[string]struct {
		router *Router
		node   *corev1.Node
		want   string
	}{
		"initialised":    {r, node("x://1", ""), ""},
		"a's":            {r, tainted(node("", "a")), ""},
		"b is asked":     {asking, tainted(node("", "")), ""},
		"nobody asked":   {r, tainted(node("", "")), "no ProviderID and no label wasm-ccm.dev/provider, and no provider may be asked for nodes (routing.nodes.ask). Set the label to one of: a, b"},
		"unknown scheme": {asking, tainted(node("x://1", "a")), `has the scheme "x" of this Node's ProviderID (they have: a of a, b of b)`},
		"unknown label":  {asking, tainted(node("", "x")), `label wasm-ccm.dev/provider says "x", which is no provider of this manager (it has: a, b)`},
	}
	for name, test := range nodes {
		t.Run(name, func(t *testing.T) {
			checkAdvice(t, test.router.UnroutedNode(test.node), test.router.adviseNode(test.node), test.want)
		})
	}
}

func checkAdvice(t *testing.T, unrouted bool, advice, want string) {
	t.Helper()
	if unrouted != (want != "") || unrouted && !strings.Contains(advice, want) {
		t.Errorf("%v, %q; want %q", unrouted, advice, want)
	}
	if len(advice) > 1000 {
		t.Errorf("an Event holds 1024 bytes, this has %d", len(advice))
	}
}

func TestAdviceIsShort(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	r := two(t)
	for _, advice := range []string{r.adviseService(service("", long)), r.adviseService(service(long, "")), r.adviseNode(node(long+"://", "")), r.adviseNode(node("", long))} {
		if len(advice) > 1000 {
			t.Errorf("%d bytes", len(advice))
		}
	}
}

// report runs a reporter over the objects in a bubble of synctest.
func report(t *testing.T, r *Router, objects ...runtime.Object) (*fake.Clientset, <-chan string) {
	api := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(api, time.Minute)
	recorder := record.NewFakeRecorder(10_000)
	reporter := NewReporter(r, factory.Core().V1().Services(), factory.Core().V1().Nodes(), recorder)
	ctx, cancel := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	done := make(chan error)
	go func() { done <- reporter.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		factory.Shutdown()
	})
	return api, recorder.Events
}

func TestReporter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong, good, lost := service("", "x"), service("", "a"), tainted(node("x://1", ""))
		good.Name, good.UID = "good", "good"
		api, events := report(t, two(t), wrong, good, lost)
		time.Sleep(10 * time.Minute) // many resyncs; the bubble's clock
		if len(events) != 2 {
			t.Fatalf("%d Events, want one on each of two objects", len(events))
		}
		for range 2 {
			if text := <-events; !strings.HasPrefix(text, "Warning NoProvider ") || !strings.Contains(text, `"x"`) {
				t.Errorf("Event %q", text)
			}
		}
		// Another mistake is worth another Event; a provider needs none.
		for choice, want := range map[string]int{"y": 1, "a": 0} {
			wrong.Annotations[ServiceAnnotation] = choice
			if _, err := api.CoreV1().Services("default").Update(t.Context(), wrong, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
			if len(events) != want {
				t.Errorf("%q: %d Events, want %d", choice, len(events), want)
			}
			for range len(events) {
				<-events
			}
		}
	})
}

func TestReporterIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var objects []runtime.Object
		for n := range 100 {
			s := service("", "x")
			s.Name, s.UID = fmt.Sprint("web", n), types.UID(fmt.Sprint(n))
			objects = append(objects, s)
		}
		_, events := report(t, two(t), objects...)
		time.Sleep(20*time.Second + 500*time.Millisecond)
		if n := len(events); n > eventBurst+20 || n < eventBurst+18 {
			t.Errorf("%d Events in 20 s, want 30", n)
		}
		time.Sleep(10 * time.Minute)
		if len(events) != 100 {
			t.Errorf("%d Events in all, want 100", len(events))
		}
	})
}
