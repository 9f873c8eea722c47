package routing

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
)

func class(class string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class }
}

// classes has the providers a, which is the default and has a class, b, which
// has two, and c.
func classes(t *testing.T) *Router {
	return mustNew(t,
		Rules{Provider: "a", DefaultServices: true, Classes: []string{"example.com/a"}},
		Rules{Provider: "b", Classes: []string{"b1", "example.com/b"}},
		Rules{Provider: "c"})
}

func TestWhoseClass(t *testing.T) {
	tests := map[string]struct {
		service       *corev1.Service
		want, unknown string // the provider; in the Event on it
	}{
		"class":                      {with(service("", ""), class("example.com/a")), "a", ""},
		"without a prefix":           {with(service("", ""), class("b1")), "b", ""},
		"of nobody, so no default":   {with(service("", ""), class("example.com/c")), "", ""},
		"a name is no class":         {with(service("", ""), class("c")), "", ""},
		"case counts":                {with(service("", ""), class("B1")), "", ""},
		"not a part":                 {with(service("", ""), class("a")), "", ""},
		"empty":                      {with(service("", ""), class("")), "", ""},
		"class before annotation":    {with(service("", "c"), class("b1")), "b", `The class "b1" (spec.loadBalancerClass) belongs to provider "b" and decides, so the annotation wasm-ccm.dev/provider ("c") has no effect`},
		"the annotation agrees":      {with(service("", "b"), class("b1")), "b", ""},
		"annotation, class nobody's": {with(service("", "a"), class("x")), "", `The class "x" (spec.loadBalancerClass) is in no provider's routing.services.classes, so the Service is left to another controller`},
		"annotation of nobody":       {with(service("", "x"), class("b1")), "b", `wasm-ccm.dev/provider ("x") has no effect`},
		"no class":                   {service("", ""), "a", ""},
		"owner before class":         {with(service("a", ""), class("b1")), "a", ""},
		"the class was taken away":   {with(service("c", ""), class("c1")), "c", ""},
		"the owner is gone":          {with(service("x", ""), class("b1")), "", `The label wasm-ccm.dev/load-balancer-provider names "x", which is not a provider of this manager`},
		"is being deleted":           {with(service("b", "a"), class("b1"), deleted, finalizer), "b", ""},
	}
	r := classes(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ownersOf(r.Services, test.service); got != test.want {
				t.Errorf("is seen by %q, want %q", got, test.want)
			}
			if got := ownersOf(r.Classes, test.service); got != test.want && test.service.Spec.LoadBalancerClass != nil {
				t.Errorf("is served without its class by %q, want %q", got, test.want)
			}
			advice := r.advise(test.service).what
			if (advice == "") != (test.unknown == "") || !strings.Contains(advice, test.unknown) || len(advice) > eventBytes {
				t.Errorf("Event %q, want %q", advice, test.unknown)
			}
		})
	}
}

// A class is the API server's to check; what a user's annotation holds is not.
func TestAClassAndALongAnnotation(t *testing.T) {
	s := with(service("", strings.Repeat("b", 200_000)), class(strings.Repeat("a", 253)+"/"+strings.Repeat("b", 63)))
	for _, r := range []*Router{classes(t), mustNew(t, Rules{Provider: "a", Classes: []string{*s.Spec.LoadBalancerClass}}, Rules{Provider: "b"})} {
		if advice := r.advise(s).what; advice == "" || len(advice) > eventBytes {
			t.Errorf("%d bytes: %q", len(advice), advice)
		}
	}
}

// TestOneProviderWithClasses has everything as before, and its classes.
func TestOneProviderWithClasses(t *testing.T) {
	r := mustNew(t, Rules{Provider: "a", Classes: []string{"mine"}})
	if !r.Everything() || r.Nodes("a") != nil || r.PersistentVolumes("a") != nil {
		t.Error("a class takes something away")
	}
	for name, test := range map[string]struct {
		service      *corev1.Service
		seen, served bool
	}{
		"no class":                 {service("", ""), true, false},
		"its class":                {with(service("", ""), class("mine")), true, true},
		"its class, an annotation": {with(service("", "x"), class("mine")), true, true},
		"another's class":          {with(service("", ""), class("other")), true, false}, // as upstream: it may have had a load balancer before
		"the class was taken away": {with(service("a", ""), class("other")), true, true},
		"another's class, deleted": {with(service("", ""), class("other"), deleted, finalizer), false, false},
		"its class, deleted":       {with(service("a", ""), class("mine"), deleted, finalizer), true, true},
		"no class, deleted":        {with(service("", ""), deleted, finalizer), true, false},
		"of a removed provider":    {with(service("x", ""), class("mine")), false, false},
	} {
		if seen, served := r.Services("a")(test.service), r.Classes("a")(test.service); seen != test.seen || served != test.served {
			t.Errorf("%s: seen %v, served without its class %v", name, seen, served)
		}
		if r.Services("b")(test.service) || r.Classes("b")(test.service) {
			t.Errorf("%s: seen by a provider that is not configured", name)
		}
	}
}

// forbidden lets nobody read or label a Service, as the rights of a single
// provider are.
func forbidden(objects ...runtime.Object) *fake.Clientset {
	api := fake.NewClientset(objects...)
	api.PrependReactor("*", "services", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(services, "web", nil)
	})
	return api
}

// A single provider needs no rights over Services before it has a class.
func TestOneProviderLabelsItsClassesOnly(t *testing.T) {
	r := mustNew(t, Rules{Provider: "a", Classes: []string{"mine"}})
	have := &balancers{name: "a", have: map[types.UID]bool{}}
	plain, _ := r.Cloud("a", have.cloud(), CloudOptions{Client: forbidden()}).LoadBalancer()
	if _, err := plain.EnsureLoadBalancer(t.Context(), "c", service("", ""), nil); err != nil {
		t.Errorf("of no class: %v", err)
	}
	for _, s := range []*corev1.Service{with(service("", ""), clusterIP), with(service("", ""), deleted)} {
		if err := plain.EnsureLoadBalancerDeleted(t.Context(), "c", s); err != nil {
			t.Errorf("of no class: %v", err)
		}
		if _, _, err := plain.GetLoadBalancer(t.Context(), "c", s); err != nil {
			t.Errorf("of no class: %v", err)
		}
	}
	if _, err := plain.EnsureLoadBalancer(t.Context(), "c", with(service("", ""), class("mine")), nil); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "needs the rules") {
		t.Errorf("of a class: %v", err)
	}

	api := fake.NewClientset(with(service("", ""), class("mine"), finalizer))
	labels, _ := r.Cloud("a", have.cloud(), CloudOptions{Client: api}).LoadBalancer()
	if _, err := labels.EnsureLoadBalancer(t.Context(), "c", with(service("", ""), class("mine")), nil); err != nil || stored(t, api).Labels[ServiceOwnerLabel] != "a" {
		t.Errorf("the owner is %q, %v", stored(t, api).Labels[ServiceOwnerLabel], err)
	}
	change(t, api, "web", `{"spec":{"type":"ClusterIP","loadBalancerClass":null}}`)
	if err := labels.EnsureLoadBalancerDeleted(t.Context(), "c", stored(t, api)); err != nil || stored(t, api).Labels[ServiceOwnerLabel] != "" {
		t.Errorf("the owner is %q, %v", stored(t, api).Labels[ServiceOwnerLabel], err)
	}
	want := []string{"a ensure web", "a delete web", "a delete web", "a ensure web", "a delete web"}
	if calls := have.calls(); !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
}

// One that had several neighbours once has labelled Services, and perhaps no
// right to change them now. They end all the same.
func TestOneProviderThatMayNotRemoveItsLabel(t *testing.T) {
	r := mustNew(t, Rules{Provider: "a"})
	have := &balancers{name: "a", have: map[types.UID]bool{}}
	b, _ := r.Cloud("a", have.cloud(), CloudOptions{Client: forbidden()}).LoadBalancer()
	if err := b.EnsureLoadBalancerDeleted(t.Context(), "c", with(service("a", ""), clusterIP)); err != nil {
		t.Error(err)
	}
}

func TestAClassDoesNotMoveALoadBalancer(t *testing.T) {
	for name, test := range map[string]struct {
		service *corev1.Service
		want    string // in the Event; "" is none
	}{
		"its own class":                  {with(service("b", "a"), class("b1")), ""},
		"given to another":               {with(service("b", "b"), class("example.com/a")), `stays with provider "b", although its class "example.com/a" belongs to provider "a". To move it`},
		"taken out of the configuration": {with(service("b", ""), class("gone")), `stays with provider "b", although its class "gone" is in no provider's routing.services.classes. To move it`},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := record.NewFakeRecorder(10)
			have := &balancers{name: "b", have: map[types.UID]bool{}}
			b, _ := classes(t).Cloud("b", have.cloud(), CloudOptions{Client: forbidden(), Recorder: recorder}).LoadBalancer()
			for range 3 {
				if _, err := b.EnsureLoadBalancer(t.Context(), "c", test.service, nil); err != nil {
					t.Fatal(err)
				}
			}
			if len(have.calls()) != 3 {
				t.Errorf("calls %q", have.calls())
			}
			if n := len(recorder.Events); (n != 0) != (test.want != "") || n > 1 {
				t.Fatalf("%d Events, want one at most", n)
			}
			if test.want != "" {
				if event := <-recorder.Events; !strings.HasPrefix(event, "Warning LoadBalancerNotMoved ") || !strings.Contains(event, test.want) {
					t.Errorf("Event %q, want %q", event, test.want)
				}
			}
		})
	}
}

func TestAContradictionGetsOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		foreign, wrong := with(service("", ""), class("service.k8s.aws/nlb")), with(service("", "a"), class("b1"))
		foreign.Name, foreign.UID = "foreign", "foreign"
		_, events := reportAll(t, classes(t), foreign, wrong)
		time.Sleep(10 * time.Minute) // many resyncs; the bubble's clock
		if len(events) != 1 {
			t.Fatalf("%d Events, want one on the contradiction", len(events))
		}
		if event := <-events; !strings.HasPrefix(event, "Warning LoadBalancerClassDecides ") {
			t.Errorf("Event %q", event)
		}
	})
}
