package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// answers is a provider whose ensures end as the test says.
type answers struct {
	*cloud
	mu      sync.Mutex
	err     error
	address string
	asked   int
}

func newAnswers() (*answers, Provider) {
	a := &answers{cloud: newCloud("a"), address: "lb.example"}
	a.instances, a.route, a.volumes = false, false, false
	p := a.provider()
	p.Cloud, p.Nodes, p.OwnedNodes = a, nil, nil
	return a, p
}

func (a *answers) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return a, true }

func (a *answers) EnsureLoadBalancer(context.Context, string, *corev1.Service, []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: a.address}}}, a.err
}

func (a *answers) now(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

func (a *answers) asks() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.asked
	a.asked = 0
	return n
}

// condition returns status, reason and message of the condition of a-web, or
// "".
func (w *world) condition() string {
	w.t.Helper()
	c := meta.FindStatusCondition(w.stored("a-web").Status.Conditions, Programmed)
	if c == nil {
		return ""
	}
	if c.LastTransitionTime.IsZero() {
		w.t.Error("the condition has no time")
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// said are the patches of Services so far that say something of a condition.
func (w *world) said() (all []string) {
	for _, action := range w.api.Actions() {
		if patch, ok := action.(clienttesting.PatchAction); ok && strings.Contains(string(patch.GetPatch()), Programmed) {
			all = append(all, patch.GetSubresource()+" "+string(patch.GetPatch()))
		}
	}
	return all
}

func (w *world) wantCondition(what, want string, patches int) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.condition()); diff != "" {
		w.t.Errorf("%s: %s", what, diff)
	}
	if said := w.said(); len(said) != patches {
		w.t.Errorf("%s: %d writes of the condition, want %d:\n%s", what, len(said), patches, strings.Join(said, "\n"))
	}
	w.api.ClearActions()
}

// someoneElses is the condition of another controller.
var someoneElses = metav1.Condition{Type: "example.com/Announced", Status: metav1.ConditionTrue, Reason: "Announced"}

func inLoop(t *testing.T, test func(w *world, a *answers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		web := balanced("a-web")
		web.Status.Conditions = []metav1.Condition{someoneElses}
		w := newWorld(t, web)
		a, p := newAnswers()
		w.start(p)
		test(w, a)
		w.stop()
	})
}

const done = `True Programmed: Provider "a" has made the load balancer as the Service says`

// touch changes the Service in a way that upstream ensures it again.
func (w *world) touch() {
	w.t.Helper()
	w.update("a-web", func(s *corev1.Service) { s.Annotations = map[string]string{"changed": time.Now().String()} })
}

func TestAConditionComesWithTheAddress(t *testing.T) {
	inLoop(t, func(w *world, a *answers) {
		w.sleep()
		w.t.Log(w.said())
		if said := w.said(); len(said) != 1 || !strings.HasPrefix(said[0], "status ") || !strings.Contains(said[0], "lb.example") {
			w.t.Errorf("not in one write with the address: %v", said)
		}
		w.wantCondition("made", done, 1)
		// It causes no ensure, and says nothing twice.
		time.Sleep(time.Hour)
		w.touch()
		if n := a.asks(); n != 2 {
			w.t.Errorf("%d ensures, want the first and that of the change", n)
		}
		w.wantCondition("an hour and a change later", done, 0)

		// The condition of others stays when ours goes with the finalizer.
		w.update("a-web", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
		w.wantCondition("no load balancer any more", "", 1)
		if s := w.stored("a-web"); len(s.Finalizers) != 0 || cmp.Diff([]metav1.Condition{someoneElses}, s.Status.Conditions) != "" {
			w.t.Errorf("finalizers %v, conditions %v", s.Finalizers, s.Status.Conditions)
		}
		if n := a.count("delete "); n != 1 {
			w.t.Errorf("%d deletions", n)
		}
	})
}

func TestAConditionOfASlowCloud(t *testing.T) {
	inLoop(t, func(w *world, a *answers) {
		a.now(cloudproviderapi.NewRetryError("in progress", 3*time.Second))
		time.Sleep(10 * time.Second)
		w.wantCondition("begun", `False Provisioning: Provider "a" has not finished yet`, 1)
		a.now(nil)
		w.sleep()
		w.wantCondition("finished", done, 1)

		// A change that takes some seconds is no news, one that takes minutes is.
		a.now(cloudproviderapi.NewRetryError("in progress", 3*time.Second))
		w.changeService("a-web", 81)
		time.Sleep(50 * time.Second)
		w.wantCondition("seconds", done, 0)
		time.Sleep(10 * time.Minute)
		w.wantCondition("minutes", `False Provisioning: Provider "a" has not finished yet`, 1)
		a.now(nil)
		w.sleep()
		w.wantCondition("finished again", done, 1)
	})
}

func TestAConditionOfAFailure(t *testing.T) {
	inLoop(t, func(w *world, a *answers) {
		a.now(fmt.Errorf("quota\n\x1b[31m of project 1 exceeded: %s", strings.Repeat("x", 100_000)))
		time.Sleep(4 * time.Second)
		w.wantCondition("failed once", "", 0)
		time.Sleep(30 * time.Second)
		got := w.condition()
		if !strings.HasPrefix(got, "False Failed: quota") || strings.ContainsAny(got, "\n\x1b") || len(got) > conditionBytes+50 {
			w.t.Errorf("condition of %d bytes: %q", len(got), got)
		}
		w.wantCondition("failed twice", got, 1)
		a.now(errors.New("quota of project 1 exceeded"))
		time.Sleep(30 * time.Minute)
		w.wantCondition("fails in other words", "False Failed: quota of project 1 exceeded", 1)
		a.now(errors.New("quota of project 2 exceeded"))
		time.Sleep(30 * time.Minute)
		w.wantCondition("fails with another number", "False Failed: quota of project 1 exceeded", 0)
		// What is asked again in the background is no news either.
		a.now(cloudproviderapi.NewRetryError("in progress", 3*time.Second))
		w.changeService("a-web", 82)
		time.Sleep(50 * time.Second)
		w.wantCondition("in progress", "False Failed: quota of project 1 exceeded", 0)
		a.now(nil)
		w.sleep()
		w.wantCondition("made", done, 1)
		since := w.stored("a-web").Status.Conditions

		// From then on upstream has nothing to write; a failure still shows.
		a.now(errors.New("no"))
		w.touch()
		time.Sleep(10 * time.Minute)
		w.wantCondition("fails", "False Failed: no", 1)
		a.now(nil)
		w.touch()
		w.wantCondition("works", done, 1)
		if cmp.Diff(since, w.stored("a-web").Status.Conditions) == "" {
			w.t.Error("the time of the transition stays")
		}
	})
}

// A Service that was deleted and made again has another UID, by which the API
// server refuses what is about the one before.
func TestAConditionIsOfOneService(t *testing.T) {
	inLoop(t, func(w *world, a *answers) {
		uid := `"uid":"` + string(w.stored("a-web").UID) + `"`
		if uid == `"uid":""` {
			t.Fatal("the Service has no UID")
		}
		w.sleep()
		a.now(errors.New("no"))
		w.touch()
		time.Sleep(10 * time.Minute)
		w.update("a-web", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
		w.sleep()
		said := slices.Compact(w.said()) // upstream may take its finalizer off twice, if its cache is behind
		if len(said) != 3 {
			t.Errorf("%d writes: made, failed, gone: %v", len(said), said)
		}
		for _, patch := range said {
			if !strings.Contains(patch, uid) {
				t.Errorf("no %s in %s", uid, patch)
			}
		}
	})
}

// Who implements it elsewhere, or is stopped, says nothing of it.
func TestNoConditionOfWhatIsNotTheProviders(t *testing.T) {
	for name, err := range map[string]error{"elsewhere": cloudprovider.ImplementedElsewhere, "stopped": context.Canceled} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, func(w *world, a *answers) {
				a.now(err)
				for range 3 {
					w.touch()
				}
				w.wantCondition(name, "", 0)
			})
		})
	}
}

// The load balancer matters more than what is said of it.
func TestAConditionThatCannotBeWritten(t *testing.T) {
	inLoop(t, func(w *world, a *answers) {
		w.sleep()
		w.api.ClearActions()
		w.api.PrependReactor("patch", "services", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no right") })
		a.now(errors.New("no"))
		w.touch()
		time.Sleep(10 * time.Minute)
		a.asks()
		a.now(nil)
		w.touch()
		w.sleep()
		if n := a.asks(); n != 1 {
			w.t.Errorf("%d ensures of one change", n)
		}
		if n := w.logged("Writing the condition of a Service failed", "no right"); n == 0 {
			w.t.Error("nothing in the log")
		}
	})
}

// Upstream looks at a Service again as soon as an op on it ends, with a copy from
// before what was written at that end.
func TestAConditionIsNotThatOfAnOldCopy(t *testing.T) {
	copied := balanced("a-web")
	programmedAs := func(status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: Programmed, Status: status, Reason: reason, Message: `Provider "a" has made the load balancer as the Service says`}}
	}
	patched := func(old []metav1.Condition, ops func(*conditions, *corev1.Service)) string {
		copied.Status.Conditions = old
		w := newWorld(t, copied)
		ops(newConditions("a", w.api, newLater()), copied)
		said := w.said()
		return strings.Join(said[max(len(said)-1, 0):], "")
	}
	fails := func(c *conditions, s *corev1.Service) {
		for range 2 {
			c.ensured(t.Context(), s, nil, errors.New("no"))
		}
	}
	if last := patched(programmedAs(metav1.ConditionTrue, programmed), func(c *conditions, s *corev1.Service) {
		fails(c, s)
		c.ensured(t.Context(), s, &s.Status.LoadBalancer, nil)
	}); !strings.Contains(last, `"True"`) {
		t.Errorf("it has failed, and works again: the last word is %s", last)
	}
	if last := patched(nil, func(c *conditions, s *corev1.Service) {
		fails(c, s)
		c.deleted(s)
		_, err := statusServices{c.client.CoreV1().Services("default"), "default", c}.Patch(t.Context(), s.Name, types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{}, "status")
		if err != nil {
			t.Error(err)
		}
	}); !strings.Contains(last, `"$patch":"delete"`) {
		t.Errorf("it has failed, and is deleted: the last word is %s", last)
	}
}

// While another provider had the Service, the condition has changed.
func TestAConditionOfSomebodyElseIsNotThatOfBefore(t *testing.T) {
	service := balanced("a-web")
	w := newWorld(t, service)
	c := newConditions("a", w.api, newLater())
	c.ensured(t.Context(), service, &service.Status.LoadBalancer, nil)
	others := metav1.NewTime(time.Now().Add(time.Hour))
	service.Status.Conditions = []metav1.Condition{{Type: Programmed, Status: metav1.ConditionFalse, Reason: failed, Message: "no", LastTransitionTime: others}}
	if now := c.now(service); now == nil || now.Status != metav1.ConditionFalse {
		t.Errorf("since another loop has written it, it is %v, want its", now)
	}
}
