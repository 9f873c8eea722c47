package controllers

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
)

// classCloud notes the class of each Service that it is asked about.
type classCloud struct {
	*cloud
	mu   sync.Mutex
	seen []string
}

func (c *classCloud) note(op string, s *corev1.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	class := "none"
	if s.Spec.LoadBalancerClass != nil {
		class = *s.Spec.LoadBalancerClass
	}
	if link := *carrier(s); link != "" {
		class += " at " + link
	}
	c.seen = append(c.seen, op+" "+s.Name+" "+class)
}

func (c *classCloud) heard() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	heard := c.seen
	c.seen = nil
	return slices.Sorted(slices.Values(heard))
}

func (c *classCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c, true }

func (c *classCloud) GetLoadBalancer(_ context.Context, _ string, s *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	c.note("get", s)
	return &corev1.LoadBalancerStatus{}, true, nil
}

func (c *classCloud) EnsureLoadBalancer(_ context.Context, _ string, s *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	c.note("ensure", s)
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: "lb.example"}}}, nil
}

func (c *classCloud) UpdateLoadBalancer(_ context.Context, _ string, s *corev1.Service, _ []*corev1.Node) error {
	c.note("update", s)
	return nil
}

func (c *classCloud) EnsureLoadBalancerDeleted(_ context.Context, _ string, s *corev1.Service) error {
	c.note("delete", s)
	return nil
}

const mine = "example.com/mine"

func ofClass(name, class string) *corev1.Service {
	s := balanced(name)
	s.UID = types.UID(name)
	if class != "" {
		s.Spec.LoadBalancerClass = &class
	}
	return s
}

// newClassCloud is a provider of the class mine, and of whatever has none.
func newClassCloud() (*classCloud, Provider) {
	c := &classCloud{cloud: newCloud("a")}
	c.instances, c.route, c.volumes = false, false, false
	p := c.provider()
	p.Cloud = c
	p.Nodes, p.OwnedNodes, p.Services = nil, nil, nil
	p.Classes = func(s *corev1.Service) bool {
		return s.Spec.LoadBalancerClass != nil && *s.Spec.LoadBalancerClass == mine
	}
	return c, p
}

func (w *world) stored(name string) *corev1.Service {
	w.t.Helper()
	s, err := w.api.CoreV1().Services("default").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) update(name string, change func(*corev1.Service)) {
	w.t.Helper()
	s := w.stored(name)
	change(s)
	if _, err := w.api.CoreV1().Services("default").Update(w.t.Context(), s, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.sleep()
}

func hears(t *testing.T, c *classCloud, what string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, c.heard()); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

// TestAClassOfTheProviderIsServed follows Services of three kinds: the
// provider's class, another's, and none.
func TestAClassOfTheProviderIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ofClass("mine", mine), ofClass("other", "example.com/other"), ofClass("none", ""))
		c, p := newClassCloud()
		w.start(p)
		w.sleep()
		hears(t, c, "made", "ensure mine "+mine, "ensure none none")
		if s := w.stored("mine"); len(s.Status.LoadBalancer.Ingress) != 1 || len(s.Finalizers) != 1 {
			t.Errorf("status %+v, finalizers %v", s.Status, s.Finalizers)
		}
		if s := w.stored("other"); len(s.Status.LoadBalancer.Ingress) != 0 || len(s.Finalizers) != 0 {
			t.Errorf("another controller's: status %+v, finalizers %v", s.Status, s.Finalizers)
		}

		for _, name := range []string{"mine", "other"} {
			w.update(name, func(s *corev1.Service) { s.Spec.Ports = []corev1.ServicePort{{Port: 81}} })
		}
		hears(t, c, "changed", "ensure mine "+mine)

		// Each Service hears of a new Node.
		if _, err := w.api.CoreV1().Nodes().Create(t.Context(), node("n", "a://n", corev1.ConditionTrue), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.sleep()
		hears(t, c, "a new Node", "update mine "+mine, "update none none")

		// The API server takes the class away with the type.
		w.update("mine", func(s *corev1.Service) { s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeClusterIP, nil })
		hears(t, c, "of another type", "delete mine none", "get mine none")
		class := mine
		w.update("mine", func(s *corev1.Service) {
			s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, &class
		})
		hears(t, c, "of the type again", "ensure mine "+mine)
		w.update("mine", func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{} })
		hears(t, c, "deleted", "delete mine "+mine, "get mine "+mine)
		if s := w.stored("mine"); len(s.Finalizers) != 0 {
			t.Errorf("finalizers %v", s.Finalizers)
		}
		w.nothingOfSpec()
		w.stop()
	})
}

// nothingOfSpec fails the test if a patch says something of a Service's spec,
// or of where the class is kept.
func (w *world) nothingOfSpec() {
	w.t.Helper()
	patches := 0
	for _, action := range w.api.Actions() {
		patch, ok := action.(clienttesting.PatchAction)
		if !ok || patch.GetResource().Resource != "services" {
			continue
		}
		patches++
		var got struct {
			Metadata map[string]any
			Spec     map[string]any
		}
		if err := json.Unmarshal(patch.GetPatch(), &got); err != nil {
			w.t.Fatal(err)
		}
		if _, link := got.Metadata["selfLink"]; link || got.Spec != nil || patch.GetSubresource() != "status" {
			w.t.Errorf("patch of %q: %s", patch.GetSubresource(), patch.GetPatch())
		}
	}
	if patches == 0 {
		w.t.Error("no patch at all")
	}
}

func TestAViewHidesTheClassInCopiesOnly(t *testing.T) {
	inView(t, func(w *world, v *view) {
		t := w.t
		other, own, forged := ofClass("a-other", "example.com/other"), ofClass("a-own", mine), ofClass("a-forged", "")
		*carrier(forged) = mine
		for _, s := range []*corev1.Service{other, own, forged} {
			if _, err := w.api.CoreV1().Services("default").Create(w.ctx, s, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		_, p := newClassCloud()
		v.classes = p.Classes
		informer := v.Core().V1().Services().Informer()
		var handled []any
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { handled = append(handled, obj) }}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stored := v.SharedInformerFactory.Core().V1().Services().Informer().GetIndexer()
		before := map[string]any{}
		for _, obj := range stored.List() {
			before[obj.(*corev1.Service).Name] = obj.(*corev1.Service).DeepCopy()
		}
		one, _, err := informer.GetStore().GetByKey("default/a-own")
		indexed, err2 := informer.GetIndexer().ByIndex(cache.NamespaceIndex, "default")
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		for _, obj := range slices.Concat(handled, informer.GetStore().List(), indexed, []any{one}) {
			s := obj.(*corev1.Service)
			if hidden := s.Spec.LoadBalancerClass == nil; hidden == (s.Name == "a-other") {
				t.Errorf("%s is shown with the class %v", s.Name, s.Spec.LoadBalancerClass)
			}
			if diff := cmp.Diff(before[s.Name].(*corev1.Service).Spec, withClass(s).Spec); diff != "" {
				t.Errorf("what the provider is asked about: %s", diff)
			}
			if s.Spec.LoadBalancerClass == nil {
				s.Labels = map[string]string{"written": "by a loop"}
			}
		}
		if len(handled) != 4 {
			t.Errorf("%d Services were told", len(handled))
		}
		for _, obj := range stored.List() {
			if s := obj.(*corev1.Service); s.Name != "a-web" && cmp.Diff(before[s.Name], obj) != "" {
				t.Errorf("the shared object was changed: %s", cmp.Diff(before[s.Name], obj))
			}
		}
	})
}

func TestTheLastStateOfADeletedServiceIsShownToo(t *testing.T) {
	_, p := newClassCloud()
	show := showServices(p.Classes)
	got := show(cache.DeletedFinalStateUnknown{Key: "default/a", Obj: ofClass("a", mine)}).(cache.DeletedFinalStateUnknown)
	if s := got.Obj.(*corev1.Service); s.Spec.LoadBalancerClass != nil || *withClass(s).Spec.LoadBalancerClass != mine {
		t.Errorf("shown as %+v", s.Spec)
	}
	for _, obj := range []any{cache.DeletedFinalStateUnknown{Key: "default/a"}, "nothing of ours"} {
		if got := show(obj); got != obj {
			t.Errorf("%v became %v", obj, got)
		}
	}
}
