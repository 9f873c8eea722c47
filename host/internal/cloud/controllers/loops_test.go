package controllers

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/controller-manager/controller"
)

// The loops follow the providers: one that comes sees its objects, one that goes
// is asked nothing any more, and the others' loops are not even begun anew.
func TestLoopsFollowTheProviders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, balanced("a-web"), balanced("b-web"), volume("b-disk"))
		a, b := newCloud("a"), newCloud("b")
		w.start(a.provider())
		w.sleep()
		before := a.count("ensure")
		w.loops.Add(b.provider())
		w.sleep()
		if b.count("ensure b-web") != 1 || b.count("labels b-disk") != 1 || b.count("list routes") == 0 {
			t.Errorf("the provider that comes was asked %v", b.seen())
		}
		<-w.loops.Remove("b")
		asked := b.count("")
		w.changeService("b-web", 81)
		if err := w.api.CoreV1().Services("default").Delete(t.Context(), "b-web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.sleep()
		if b.count("") != asked {
			t.Errorf("the provider that went was asked %v", b.seen())
		}
		if a.count("ensure") != before || a.count("ensure b-") != 0 {
			t.Errorf("the other one was asked %v", a.seen())
		}
		w.stop()
	})
}

// What the loops of one provider were the first to watch, those of another one
// go on watching when it is gone.
func TestInformersOutliveTheProviderThatNeededThemFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, volume("b-disk"))
		a, b := newCloud("a"), newCloud("b")
		w.start(a.provider())
		w.sleep()
		w.loops.Add(b.provider())
		w.sleep()
		<-w.loops.Remove("a")
		if _, err := w.api.CoreV1().PersistentVolumes().Create(t.Context(), volume("b-late"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.api.CoreV1().Services("default").Create(t.Context(), balanced("b-web"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.sleep()
		if b.count("labels b-late") == 0 || b.count("ensure b-web") == 0 {
			t.Errorf("it was asked %v", b.seen())
		}
		w.stop()
	})
}

// startHanging starts the loops of a provider whose ensures hang until release is
// called, whatever their contexts say, and returns another one of its name.
func (w *world) startHanging() (second *cloud, release func()) {
	w.t.Helper()
	first, hang := newCloud("a"), make(chan struct{})
	first.hang = func(call string) bool {
		if strings.HasPrefix(call, "ensure") {
			<-hang
		}
		return false
	}
	w.start(first.provider())
	w.sleep()
	return newCloud("a"), func() { close(hang) }
}

// wantAfter adds the second one, and wants it to begin when the one before has
// stopped, and not earlier.
func (w *world) wantAfter(stopped <-chan struct{}, second *cloud, release func()) {
	w.t.Helper()
	select {
	case <-stopped:
		w.t.Error("it has stopped while a call goes on")
	default:
	}
	w.loops.Add(second.provider())
	w.sleep()
	if second.count("") != 0 {
		w.t.Errorf("beside the one before it was asked %v", second.seen())
	}
	release()
	w.sleep()
	if second.count("ensure a-web") == 0 {
		w.t.Errorf("it was asked %v", second.seen())
	}
	w.stop()
}

// Whoever is removed and comes back at once has never two loops.
func TestALoopThatComesBackWaitsForTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, balanced("a-web"))
		second, release := w.startHanging()
		w.wantAfter(w.loops.Remove("a"), second, release)
	})
}

// Whoever is removed twice while a call goes on has never two loops either: none
// has stopped before all have.
func TestALoopThatIsRemovedTwiceWaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, balanced("a-web"))
		second, release := w.startHanging()
		var stopped <-chan struct{}
		for range 2 {
			w.loops.Remove("a")
			w.loops.Add(second.provider())
			stopped = w.loops.Remove("a")
			synctest.Wait()
		}
		w.wantAfter(stopped, second, release)
	})
}

// /healthz asks those that there are.
func TestHealthFollowsTheProviders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := newCloud("a"), newCloud("b")
		p := b.provider()
		p.Healthy = func() error { return fmt.Errorf("a call hangs") }
		started := w.start(a.provider())
		check := func() (failed int) {
			for _, c := range started {
				if c.(controller.HealthCheckable).HealthChecker().Check(nil) != nil {
					failed++
				}
			}
			return failed
		}
		for range 2 {
			if n := check(); n != 0 {
				t.Errorf("%d loops are not healthy", n)
			}
			w.loops.Add(p)
			if n := check(); n != len(started) {
				t.Errorf("%d loops are not healthy, want %d", n, len(started))
			}
			<-w.loops.Remove("b")
		}
		w.sleep()
		w.stop()
	})
}

// running is what the gauge of running controllers says.
func running(t *testing.T, manager string) (n float64) {
	t.Helper()
	all, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range all {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if family.GetName() == "running_managed_controllers" && label.GetName() == "manager" && label.GetValue() == manager {
					n += m.GetGauge().GetValue()
				}
			}
		}
	}
	return n
}

// From one provider to several and back the gauge shows each that runs, once.
func TestTheGaugeFollowsTheProviders(t *testing.T) {
	controllersmetrics.Register()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := newCloud("a"), newCloud("b")
		w.start(a.provider())
		w.sleep()
		look := func(what string, alone, ofA, ofB float64) {
			t.Helper()
			w.sleep()
			if got := [3]float64{running(t, "test"), running(t, "cloud-controller-manager/a"), running(t, "cloud-controller-manager/b")}; got != [3]float64{alone, ofA, ofB} {
				t.Errorf("%s: %v run, want %v, %v, %v", what, got, alone, ofA, ofB)
			}
		}
		look("one", 4, 0, 0)
		w.loops.Add(b.provider())
		look("two", 0, 4, 4)
		a.has(false, true, true, true)
		look("a without load balancers", 0, 3, 4)
		<-w.loops.Remove("b")
		look("one again", 3, 0, 0)
		a.has(true, true, true, true)
		look("one with load balancers again", 4, 0, 0)
		w.stop()
		look("none", 0, 0, 0)
	})
}

// Volumes that become a provider's by other rules are labelled, without anybody's
// touching them.
func TestVolumesAreLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, volume("x-disk"))
		a := newCloud("a")
		p := a.provider()
		var mu sync.Mutex
		own := "a-"
		p.PersistentVolumes = func(v *corev1.PersistentVolume) bool {
			mu.Lock()
			defer mu.Unlock()
			return strings.HasPrefix(v.Name, own)
		}
		w.start(p)
		w.sleep()
		mu.Lock()
		own = "x-"
		mu.Unlock()
		w.loops.LookAtVolumes("a")
		time.Sleep(time.Second)
		if a.count("labels x-disk") == 0 {
			t.Errorf("it was asked %v", a.seen())
		}
		w.stop()
	})
}
