package controllers

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

func inView(t *testing.T, test func(w *world, v *view)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, balanced("a-web"), balanced("b-web"), node("a-n", "", corev1.ConditionTrue), node("b-n", "", corev1.ConditionTrue),
			volume("a-disk"), volume("b-disk"))
		p := newCloud("a").provider()
		v := newView(w.completed.SharedInformers, newLease(w.ctx, errors.New("stopped")), p, p.Nodes)
		core := v.Core().V1()
		core.Nodes().Informer()
		core.Services().Informer()
		core.PersistentVolumes().Informer()
		v.Start(w.ctx.Done())
		v.WaitForCacheSync(w.ctx.Done())
		test(w, v)
		w.stop()
	})
}

func TestAViewListsMatchingObjects(t *testing.T) {
	inView(t, func(w *world, v *view) {
		t := w.t
		core, all := v.Core().V1(), labels.Everything()
		nodes, err := core.Nodes().Lister().List(all)
		if err != nil || len(nodes) != 1 || nodes[0].Name != "a-n" {
			t.Errorf("nodes %v, %v", nodes, err)
		}
		services, err := core.Services().Lister().Services("default").List(all)
		if err != nil || len(services) != 1 || services[0].Name != "a-web" {
			t.Errorf("services %v, %v", services, err)
		}
		volumes, err := core.PersistentVolumes().Lister().List(all)
		if err != nil || len(volumes) != 1 || volumes[0].Name != "a-disk" {
			t.Errorf("volumes %v, %v", volumes, err)
		}
		if _, err := core.Services().Lister().Services("default").Get("a-web"); err != nil {
			t.Error(err)
		}
		for name, get := range map[string]func() error{
			"service": func() error { _, err := core.Services().Lister().Services("default").Get("b-web"); return err },
			"node":    func() error { _, err := core.Nodes().Lister().Get("b-n"); return err },
			"volume":  func() error { _, err := core.PersistentVolumes().Lister().Get("b-disk"); return err },
		} {
			if err := get(); !apierrors.IsNotFound(err) {
				t.Errorf("another's %s: %v", name, err)
			}
		}
		store := core.Services().TypedInformer().GetStore()
		if keys := store.ListKeys(); !slices.Equal(keys, []string{"default/a-web"}) || len(store.List()) != 1 {
			t.Errorf("store %v, %v", keys, store.List())
		}
		indexer := core.Services().Informer().GetIndexer()
		keys, err := indexer.IndexKeys(cache.NamespaceIndex, "default")
		objects, err2 := indexer.ByIndex(cache.NamespaceIndex, "default")
		if err != nil || err2 != nil || len(keys) != 1 || len(objects) != 1 {
			t.Errorf("index %v, %v, %v, %v", keys, objects, err, err2)
		}
	})
}

// The shared store must not be changed by a view of it.
func TestAViewChangesNothing(t *testing.T) {
	inView(t, func(w *world, v *view) {
		store := v.SharedInformerFactory.Core().V1().Services().Informer().GetIndexer()
		for range 2 {
			v.Core().V1().Services().Informer().GetStore().List()
			if n := len(store.List()); n != 2 {
				w.t.Errorf("%d Services in the shared store, want 2", n)
			}
		}
	})
}

func TestAnObjectThatIsHandedOverIsDeletedForOneAndNewForTheOther(t *testing.T) {
	inView(t, func(w *world, v *view) {
		t := w.t
		labelled := func(n *corev1.Node) bool { return n.Labels["owner"] == "a" }
		v.nodes = only(labelled)
		var got []string
		_, err := v.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { got = append(got, "add "+obj.(*corev1.Node).Name) },
			UpdateFunc: func(_, obj any) { got = append(got, "update "+obj.(*corev1.Node).Name) },
			DeleteFunc: func(obj any) { got = append(got, "delete "+obj.(*corev1.Node).Name) },
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, owner := range []string{"a", "a", "b"} {
			n := node("b-n", "", corev1.ConditionTrue)
			n.Labels = map[string]string{"owner": owner}
			if _, err := w.api.CoreV1().Nodes().Update(context.Background(), n, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if want := []string{"add b-n", "update b-n", "delete b-n"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestDeletionsAreFilteredByTheLastState(t *testing.T) {
	match := only(func(n *corev1.Node) bool { return n.Name == "mine" })
	for want, objects := range map[bool][]any{
		true: {
			node("mine", "", corev1.ConditionTrue),
			cache.DeletedFinalStateUnknown{Key: "mine", Obj: node("mine", "", corev1.ConditionTrue)},
			cache.DeletedFinalStateUnknown{Key: "unknown"},
		},
		false: {
			node("other", "", corev1.ConditionTrue),
			cache.DeletedFinalStateUnknown{Key: "other", Obj: node("other", "", corev1.ConditionTrue)},
		},
	} {
		for _, obj := range objects {
			if got := match(obj); got != want {
				t.Errorf("%v matches: %v", obj, got)
			}
		}
	}
}

func TestAViewThatEndedIsNoAnswer(t *testing.T) {
	inView(t, func(w *world, v *view) {
		t := w.t
		lister := v.Core().V1().Services().Lister()
		v.lease.end()
		v.release()
		// Not found would make upstream delete a load balancer.
		if _, err := lister.Services("default").Get("a-web"); err == nil || apierrors.IsNotFound(err) {
			t.Errorf("a Service that is there: %v", err)
		}
		if _, err := v.Core().V1().Services().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{}); err == nil {
			t.Error("a handler was added that nobody takes off")
		}
	})
}
