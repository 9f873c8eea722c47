package controllers

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cloud-provider/names"
	servicehelper "k8s.io/cloud-provider/service/helpers"
	"k8s.io/controller-manager/controller"
)

// These tests run upstream's own loops.

func TestEachProviderSeesItsOwnObjectsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none := node("none", "", corev1.ConditionUnknown)
		w := newWorld(t, none, volume("none-disk"),
			node("a-ready", "a://1", corev1.ConditionTrue), node("a-gone", "a://2", corev1.ConditionUnknown),
			node("a-perhaps", "", corev1.ConditionUnknown), volume("a-disk"),
			node("b-ready", "b://1", corev1.ConditionTrue), volume("b-disk"))
		a, b := newCloud("a"), newCloud("b")
		w.start(a.provider(), b.provider())
		w.sleep() // so a-gone is gone before there are Services; else upstream races
		if _, err := w.api.CoreV1().Nodes().Get(t.Context(), "a-gone", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Fatalf("a-gone is not deleted: %v", err)
		}
		for _, name := range []string{"none-web", "a-web", "b-web"} {
			if _, err := w.api.CoreV1().Services("default").Create(t.Context(), balanced(name), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		w.sleep()
		for _, c := range []*cloud{a, b} {
			for _, call := range c.seen() {
				for word := range strings.FieldsSeq(call) {
					if strings.Contains(word, "-") && !c.owns(word) || word == "none" {
						t.Errorf("provider %s: %q", c.name, call)
					}
				}
			}
		}
		for _, call := range []string{"ensure b-web b-ready", "metadata b-ready", "route b-ready", "labels b-disk"} {
			if !slices.Contains(b.seen(), call) {
				t.Errorf("no %q in %v", call, b.seen())
			}
		}
		var left []string
		list, err := w.api.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range list.Items {
			left = append(left, n.Name)
			if n.Name == "none" {
				if diff := cmp.Diff(*none, n); diff != "" {
					t.Errorf("the Node of no provider was changed: %s", diff)
				}
			}
		}
		slices.Sort(left)
		// No instance exists, but only a-gone is surely one of a provider.
		if diff := cmp.Diff([]string{"a-perhaps", "a-ready", "b-ready", "none"}, left); diff != "" {
			t.Error(diff)
		}
		w.stop()
	})
}

func TestALoopFollowsWhatItsProviderCanDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, balanced("a-web"), balanced("b-web"), node("a-n", "a://1", corev1.ConditionTrue), volume("a-disk"))
		w.blind = true
		a, b := newCloud("a"), newCloud("b")
		a.has(false, false, false, false) // before it serves
		w.start(a.provider(), b.provider())
		w.sleep()
		if calls := a.seen(); len(calls) != 0 {
			t.Errorf("calls before it serves: %v", calls)
		}
		a.has(true, true, true, true)
		w.sleep()
		if e, m, r, l := a.count("ensure a-web"), a.count("metadata"), a.count("route a-n"), a.count("labels a-disk"); e != 1 || m == 0 || r == 0 || l != 1 {
			t.Fatalf("%d ensures, %d metadata, %d routes, %d labels", e, m, r, l)
		}
		a.has(true, true, true, true) // as the one before
		w.sleep()
		if n := a.count("ensure"); n != 1 {
			t.Errorf("%d ensures: a replacement restarted the loop", n)
		}

		a.has(false, true, true, true)
		synctest.Wait()
		before, metadata := a.count("ensure")+a.count("update"), a.count("metadata")
		w.changeService("a-web", 80)
		w.sleep()
		if n := a.count("ensure") + a.count("update"); n != before {
			t.Errorf("%d calls of load balancers after they are gone", n-before)
		}
		if a.count("metadata") == metadata {
			t.Error("the loop of nodes has stopped, too")
		}
		a.has(true, true, true, true)
		w.sleep()
		if n := a.count("ensure"); n != 2 {
			t.Errorf("%d ensures, want one more for the change", n)
		}
		if n := b.count("ensure"); n != 1 {
			t.Errorf("the other provider's Service was ensured %d times", n)
		}
		for message, want := range map[string]int{"control loop started": 2, "control loop stopped": 1} {
			if n := w.logged(message, `provider="a"`, `controller="service-lb-controller"`); n != want {
				t.Errorf("%q is logged %d times, want %d:\n%s", message, n, want, w.log.String())
			}
		}
		w.stop()
	})
}

func TestEveryLoopStopsAlone(t *testing.T) {
	kinds := []string{"ensure", "metadata", "list routes", "labels"}
	for lost := range kinds {
		t.Run(kinds[lost], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, balanced("a-web"), node("a-n", "a://1", corev1.ConditionTrue), volume("a-disk"))
				w.blind = true
				a := newCloud("a")
				w.start(a.provider())
				w.sleep()
				a.has(lost != 0, lost != 1, lost != 2, lost != 3)
				synctest.Wait()
				before := make([]int, len(kinds))
				for i, kind := range kinds {
					before[i] = a.count(kind)
				}
				w.changeService("a-web", 80)
				if _, err := w.api.CoreV1().PersistentVolumes().Create(t.Context(), volume("a-new"), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				w.sleep()
				for i, kind := range kinds {
					if more := a.count(kind) > before[i]; more != (i != lost) {
						t.Errorf("without %s: %s goes on: %v", kinds[lost], kind, more)
					}
				}
				w.stop()
			})
		})
	}
}

func TestAProviderThatHangsDelaysNoOther(t *testing.T) {
	alone := ensureAll(t, false)
	beside := ensureAll(t, true)
	t.Logf("100 Services in %v, beside a provider that hangs %v", alone, beside)
	if ratio := float64(alone) / float64(beside); ratio < 0.95 {
		t.Errorf("100 Services in %v, beside a provider that hangs %v", alone, beside)
	}
}

// ensureAll returns how long 100 Services of b need, of 10 ms each.
func ensureAll(t *testing.T, hangs bool) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("a-n", "a://1", corev1.ConditionUnknown), node("b-n", "b://1", corev1.ConditionTrue))
		a, b := newCloud("a"), newCloud("b")
		a.hang = func(string) bool { return hangs }
		b.latency = 10 * time.Millisecond
		w.start(a.provider(), b.provider())
		w.sleep()
		start := time.Now()
		for i := range 100 {
			for _, name := range []string{"a", "b"} {
				s := balanced(fmt.Sprintf("%s-%02d", name, i))
				if _, err := w.api.CoreV1().Services("default").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for ; b.count("ensure") < 100 && took < time.Minute; took = time.Since(start) {
			time.Sleep(time.Millisecond)
		}
		if n := a.count("ensure"); hangs && n != serviceWorkers {
			t.Errorf("%d ensures of the provider that hangs in all of its workers", n)
		}
		w.stop()
	})
	return took
}

// Upstream empties its queue after it was told to stop, and updates load
// balancers with a context that never ends.
func TestAStoppedLoopDropsItsWork(t *testing.T) {
	for _, op := range []string{"ensure", "update"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var services []kruntime.Object // more than the loop has workers for
				for n := range serviceWorkers + 3 {
					services = append(services, balanced(fmt.Sprint("a-", n)))
				}
				w := newWorld(t, services...)
				a := newCloud("a")
				a.hang = func(call string) bool { return strings.HasPrefix(call, op) }
				w.start(a.provider())
				w.sleep()
				if op == "update" {
					if _, err := w.api.CoreV1().Nodes().Create(t.Context(), node("a-n", "a://1", corev1.ConditionTrue), metav1.CreateOptions{}); err != nil {
						t.Fatal(err)
					}
					w.sleep()
				}
				if n := a.count(op); n != serviceWorkers {
					t.Fatalf("%d calls hang, want %d", n, serviceWorkers)
				}
				a.has(false, true, true, true)
				w.sleep()
				if n := a.count(op); n != serviceWorkers {
					t.Errorf("%d calls after the stop", n-serviceWorkers)
				}
				if n := w.logged("control loop stopped", names.ServiceLBController); n != 1 {
					t.Errorf("the loop has stopped %d times", n)
				}
				if op == "ensure" {
					if n := finalizers(t, w); n != serviceWorkers {
						t.Errorf("%d Services have the finalizer, want the %d that were being ensured", n, serviceWorkers)
					}
				}
				w.stop()
			})
		})
	}
}

func finalizers(t *testing.T, w *world) (n int) {
	t.Helper()
	list, err := w.api.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Items {
		if servicehelper.HasLBFinalizer(&s) {
			n++
		}
	}
	return n
}

func TestAStartThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, balanced("a-web"))
		w.builder.failures = 1000
		w.completed.ComponentConfig.KubeCloudShared.ClusterCIDR = "nonsense" // upstream returns an error, which would be fatal
		a := newCloud("a")
		w.start(a.provider())
		time.Sleep(time.Hour)
		if n := w.logged("control loop not started", "no token yet", names.ServiceLBController); n != 1 {
			t.Errorf("logged %d times, want once", n)
		}
		w.builder.mu.Lock()
		tried := 1000 - w.builder.failures
		w.builder.failures = 0
		w.builder.mu.Unlock()
		if tried < 5*10 || tried > 5*30 {
			t.Errorf("tried %d times in an hour", tried)
		}
		time.Sleep(lastRetry + time.Minute)
		synctest.Wait()
		if n := a.count("ensure"); n != 1 {
			t.Errorf("%d ensures after the reason was mended", n)
		}
		if n := w.logged("control loop not started", "nonsense", names.NodeRouteController); n != 1 {
			t.Errorf("the CIDR is logged %d times", n)
		}
		w.builder.mu.Lock()
		for name, n := range w.builder.made {
			// cloud-node and lifecycle have one identity; volumes list and write.
			if n > 2 {
				t.Errorf("%d clients of %s", n, name)
			}
		}
		w.builder.mu.Unlock()
		w.stop()
	})
}

func TestARestartLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, balanced("a-web"), node("a-n", "a://1", corev1.ConditionUnknown), volume("a-disk"))
		w.blind = true
		a := newCloud("a")
		p := a.provider()
		var filtered atomic.Int32
		p.Services = func(s *corev1.Service) bool {
			filtered.Add(1)
			return a.owns(s.Name)
		}
		w.start(p)
		restart := func() {
			a.has(false, false, false, false)
			w.sleep()
			a.has(true, true, true, true)
			w.sleep()
		}
		restart()
		goroutines, perEvent := runtime.NumGoroutine(), event(w, &filtered, 1)
		for range 20 {
			restart()
		}
		if n := runtime.NumGoroutine(); n > goroutines+2 {
			t.Errorf("%d goroutines after 20 restarts of every loop, %d before", n, goroutines)
		}
		if n := event(w, &filtered, 2); n != perEvent {
			t.Errorf("one event is filtered %d times, %d before the restarts: a handler is registered twice", n, perEvent)
		}
		if n := a.count("ensure"); n < 22 {
			t.Errorf("%d ensures in 22 starts", n)
		}
		a.has(false, false, false, false)
		w.sleep()
		if n := event(w, &filtered, 3); n != 0 {
			t.Errorf("one event is filtered %d times although no loop runs", n)
		}
		w.stop()
	})
}

// event changes a Service and returns how often it is filtered at once.
func event(w *world, filtered *atomic.Int32, port int32) int32 {
	synctest.Wait()
	before := filtered.Load()
	w.changeService("a-web", port)
	synctest.Wait()
	return filtered.Load() - before
}

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, volume("a-disk"))
		a := newCloud("a")
		a.hang = func(string) bool { return true }
		p, q := a.provider(), newCloud("b").provider()
		var held atomic.Pointer[error]
		q.Healthy = func() error {
			if err := held.Load(); err != nil {
				return *err
			}
			return nil
		}
		started := w.start(p, q)
		w.sleep()
		check := func(name string) error {
			return started[name].(controller.HealthCheckable).HealthChecker().Check(nil)
		}
		for name := range started {
			if err := check(name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		wedged := errors.New("lb_ensure has been running for hours")
		held.Store(&wedged)
		for name := range started {
			if err := check(name); !errors.Is(err, wedged) || !strings.Contains(err.Error(), `provider "b"`) {
				t.Errorf("%s: %v", name, err)
			}
		}
		held.Store(nil)
		time.Sleep(time.Hour) // the volume loop has a check of its own
		if err := check("persistentvolume-label"); err == nil || !strings.Contains(err.Error(), `provider "a": PersistentVolume a-disk`) {
			t.Errorf("a volume that hangs: %v", err)
		}
		w.stop()
	})
}
