package routing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
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
	ofClass := func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class }
	clusterIP := func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }
	finalizer := func(s *corev1.Service) { s.Finalizers = []string{servicehelpers.LoadBalancerCleanupFinalizer} }
	deleted := func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{} }
	services := map[string]struct {
		service *corev1.Service
		changes []change
		want    string // in the Event; "" is not nobody's
	}{
		"a's":                  {service("", "a"), nil, ""},
		"names nobody":         {service("", ""), nil, "no annotation wasm-ccm.dev/provider, and no provider is the default for Services (routing.services.default). Set the annotation to one of: a, b"},
		"names an unknown one": {service("", "x"), nil, `annotation wasm-ccm.dev/provider names "x", which is not a provider of this manager (it has: a, b)`},
		"owner is gone":        {service("x", "a"), nil, `label wasm-ccm.dev/load-balancer-provider names "x", which is not a provider of this manager (it has: a, b)`},
		"another controller's": {service("", ""), []change{ofClass}, ""},
		"no load balancer":     {service("", ""), []change{clusterIP}, ""},
		"somebody's finalizer": {service("", ""), []change{clusterIP, finalizer}, ""},
		"cannot be deleted":    {service("", ""), []change{clusterIP, finalizer, deleted}, "Set the annotation"},
		"deleted, and its owner is gone": {service("x", "a"), []change{finalizer, deleted},
			"It is being deleted and waits for the removal of its finalizer service.kubernetes.io/load-balancer-cleanup. The label wasm-ccm.dev/load-balancer-provider names"},
		"of no class, deleted": {service("", "a"), []change{ofClass, finalizer, deleted},
			`Its class "x" (spec.loadBalancerClass) is in no provider's routing.services.classes (there are: a, b), and its annotation wasm-ccm.dev/provider says "a". Give the class to a provider`},
		"of no class, and no finalizer":   {service("", "a"), []change{ofClass, deleted}, ""},
		"of no class, and not deleted":    {service("", "a"), []change{ofClass, finalizer}, ""},
		"another controller's is deleted": {service("", ""), []change{ofClass, finalizer, deleted}, ""},
		"load balancer left behind":       {service("x", ""), []change{clusterIP, finalizer}, "its load balancer is gone, remove the label"},
	}
	r := mustNew(t, Rules{Provider: "b"}, Rules{Provider: "a"})
	for name, test := range services {
		t.Run(name, func(t *testing.T) {
			for _, change := range test.changes {
				change(test.service)
			}
			checkAdvice(t, r.UnroutedService(test.service), r.table().adviseService(test.service), test.want)
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
		"unknown label":  {asking, tainted(node("", "x")), `label wasm-ccm.dev/provider names "x", which is not a provider of this manager (it has: a, b)`},
	}
	for name, test := range nodes {
		t.Run(name, func(t *testing.T) {
			checkAdvice(t, test.router.UnroutedNode(test.node), test.router.table().adviseNode(test.node), test.want)
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
	for _, advice := range []string{r.table().adviseService(service("", long)), r.table().adviseService(service(long, "")), r.table().adviseNode(node(long+"://", "")), r.table().adviseNode(node("", long))} {
		if len(advice) > 1000 {
			t.Errorf("%d bytes", len(advice))
		}
	}
}

// reportAll runs a reporter over the objects in a bubble of synctest.
func reportAll(t *testing.T, r *Router, objects ...runtime.Object) (*fake.Clientset, <-chan string) {
	api := fake.NewClientset(objects...)
	return api, reportBy(t, r, api)
}

func reportBy(t *testing.T, r *Router, api *fake.Clientset) <-chan string {
	factory := informers.NewSharedInformerFactory(api, time.Minute)
	recorder := record.NewFakeRecorder(10_000)
	reporter := NewReporter(r, factory.Core().V1().Services(), factory.Core().V1().Nodes(), recorder, Condition{Type: testCondition, Client: api})
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
	return recorder.Events
}

func TestReporter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong, good, lost := service("", "x"), service("", "a"), tainted(node("x://1", ""))
		good.Name, good.UID = "good", "good"
		api, events := reportAll(t, two(t), wrong, good, lost)
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
		_, events := reportAll(t, two(t), objects...)
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

const testCondition = "example.com/Programmed"

// A Service of no provider has a condition, which goes when it waits no more.
// One of another controller's class has none.
func TestAServiceOfNoProviderHasACondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		class := "x"
		lost, other := service("", "x"), service("", "")
		other.Name, other.UID, other.Spec.LoadBalancerClass = "other", "other", &class
		lost.Status.Conditions = []metav1.Condition{{Type: "example.com/Other", Status: metav1.ConditionTrue, Reason: "Kept"}}
		worked := service("x", "")
		worked.Name, worked.UID = "worked", "worked"
		worked.Status.Conditions = []metav1.Condition{{Type: testCondition, Status: metav1.ConditionTrue, Reason: "Programmed"}}
		api := fake.NewClientset(lost, other, worked)
		away := true
		api.PrependReactor("patch", "services", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if !away || action.(clienttesting.PatchAction).GetName() != lost.Name {
				return false, nil, nil
			}
			away = false
			return true, nil, errors.New("connection refused")
		})
		reportBy(t, two(t), api)
		status := func(name string) (conditions []string) {
			t.Helper()
			time.Sleep(10 * time.Minute)
			s, err := api.CoreV1().Services("default").Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range s.Status.Conditions {
				conditions = append(conditions, fmt.Sprintf("%s=%s %s %.40s", c.Type, c.Status, c.Reason, c.Message))
			}
			return conditions
		}
		change := func(change func(*corev1.Service)) {
			t.Helper()
			s, err := api.CoreV1().Services("default").Get(t.Context(), lost.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			change(s)
			if _, err := api.CoreV1().Services("default").Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		const kept = "example.com/Other=True Kept "
		want := []string{testCondition + "=False NoProvider The annotation wasm-ccm.dev/provider nam", kept}
		got := status(lost.Name)
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{testCondition + "=Unknown NoProvider The label wasm-ccm.dev/load-balancer-pro"}, status("worked")); diff != "" {
			t.Errorf("one that was in order (-want +got):\n%s", diff)
		}
		if got := status("other"); len(got) > 0 {
			t.Errorf("another controller's Service has %q", got)
		}
		patches := 0
		for _, action := range api.Actions() {
			if action.GetVerb() == "patch" {
				patches++
			}
		}
		if patches != 3 {
			t.Errorf("%d patches, want one of each Service, and one more of that for which the API server was away", patches)
		}
		change(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
		if diff := cmp.Diff([]string{kept}, status(lost.Name)); diff != "" {
			t.Errorf("when it wants no load balancer (-want +got):\n%s", diff)
		}
		change(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer })
		if got := status(lost.Name); len(got) != 2 {
			t.Errorf("when it wants one again it has %q", got)
		}
		change(func(s *corev1.Service) { s.Annotations[ServiceAnnotation] = "a" })
		if got := status(lost.Name); len(got) != 2 {
			t.Errorf("the condition is its provider's to write, and there are %q", got)
		}
	})
}
