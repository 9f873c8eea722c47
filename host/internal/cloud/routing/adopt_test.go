package routing

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
)

// Where a provider that has had everything gets others beside it, its load
// balancers stay its own, whoever is the default from then on.
func TestLoadBalancersOfWhoHadEverythingStayItsOwn(t *testing.T) {
	own, foreign := "example.com/own", "example.com/foreign"
	make := func(name string, change func(*corev1.Service)) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u", Finalizers: []string{servicehelpers.LoadBalancerCleanupFinalizer}}}
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		change(s)
		return s
	}
	client := fake.NewClientset(
		make("plain", func(*corev1.Service) {}),
		make("new", func(s *corev1.Service) { s.Finalizers = nil }),
		make("lost", func(s *corev1.Service) { s.Labels = map[string]string{ServiceOwnerLabel: "x"} }),
		make("own", func(s *corev1.Service) { s.Spec.LoadBalancerClass = &own }),
		make("foreign", func(s *corev1.Service) { s.Spec.LoadBalancerClass = &foreign }),
	)
	r := mustNew(t, Rules{Provider: "a", Classes: []string{own}})
	next, err := r.Next([]Rules{{Provider: "a", Classes: []string{own}}, {Provider: "b", DefaultServices: true}})
	if err != nil {
		t.Fatal(err)
	}
	// Only the manager's own account may surely list.
	down, labels := true, fake.NewClientset()
	labels.PrependReactor("*", "services", clienttesting.ObjectReaction(client.Tracker()))
	labels.PrependReactor("list", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("services"), "", nil)
	})
	labels.PrependReactor("patch", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return down, nil, errors.New("connection refused")
	})
	if err := next.Adopt(t.Context(), client, labels); err == nil {
		t.Error("no error while the API server is away")
	}
	down = false
	for range 2 {
		if err := next.Adopt(t.Context(), client, labels); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"plain": "a", "new": "", "lost": "x", "own": "a", "foreign": ""} {
		s, err := client.CoreV1().Services("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || s.Labels[ServiceOwnerLabel] != want {
			t.Errorf("%s is %q's, want %q; %v", name, s.Labels[ServiceOwnerLabel], want, err)
		}
	}
	next.Replace()
	client.ClearActions()
	labels.ClearActions()
	again, err := r.Next([]Rules{{Provider: "a"}})
	if err != nil || again.Adopt(t.Context(), client, labels) != nil || len(client.Actions())+len(labels.Actions()) != 0 {
		t.Errorf("of several nothing is adopted: %v, %v", err, client.Actions())
	}
}
