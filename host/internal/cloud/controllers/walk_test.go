package controllers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	servicehelper "k8s.io/cloud-provider/service/helpers"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/async"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/provider"
)

// moody is a cloud of load balancers whose every op takes another time; some hang.
type moody struct {
	*slowCloud
	mu      sync.Mutex
	random  *rand.Rand
	running map[string]int // by the name of the Service
	clashes int
	made    map[string]string // the revision of the last ensure, by name
}

// Supports implements opcontext.Invoker.
func (*moody) Supports(op abi.Op) bool { return op.Group() == abi.GroupLoadBalancers }

func (c *moody) InvokeFresh(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return c.Invoke(ctx, op, req, resp)
}

func (c *moody) Invoke(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	s := req.(*abi.LoadBalancerRequest).Service
	takes := c.begin(s.Name)
	defer c.count(s.Name, -1)
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	if op == abi.OpLoadBalancerEnsure {
		c.mu.Lock()
		c.made[s.Name] = s.Annotations[revision]
		c.mu.Unlock()
	}
	return c.slowCloud.Invoke(ctx, op, req, resp)
}

func (c *moody) begin(name string) time.Duration {
	c.count(name, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	paces := []time.Duration{20 * time.Millisecond, 300 * time.Millisecond, 3 * time.Second, 10 * time.Second, 25 * time.Second, time.Hour}
	takes := paces[c.random.IntN(len(paces))]
	if takes == time.Hour && c.random.IntN(2) == 0 {
		takes = 0
	}
	return takes
}

func (c *moody) count(name string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[name] += n; c.running[name] > 1 {
		c.clashes++
	}
}

// TestAWalk has Services come, change, be something else and go, Nodes come and the
// provider be replaced, at random. Then nothing happens for hours, and all is as the
// Services say: nothing leaked, no op beside another, no condition wrong.
func TestAWalk(t *testing.T) {
	klog.SetLogger(logr.Discard())
	t.Cleanup(klog.ClearLogger)
	seeds := uint64(5)
	if testing.Short() {
		seeds = 1 // make test-all runs all
	}
	for seed := range seeds {
		for _, instances := range []int{1, 2, 8} {
			t.Run(fmt.Sprintf("seed %d, %d instances", seed, instances), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { walk(t, seed, instances) })
			})
		}
	}
}

func walk(t *testing.T, seed uint64, instances int) {
	w := newWorld(t, node("node-0", "slow://0", corev1.ConditionTrue))
	w.ctx = klog.NewContext(w.ctx, logr.Discard())
	w.keepFinalizers()
	c := &moody{slowCloud: newSlowCloud(0), random: rand.New(rand.NewPCG(seed, 2)), running: map[string]int{}, made: map[string]string{}}
	invoker := async.New(c, async.Options{Instances: func() int { return instances }})
	w.start(Provider{Name: "slow", Cloud: provider.New(invoker), Changed: c.Changed, Reconfigured: c.Changed})
	w.sleep()
	random := rand.New(rand.NewPCG(seed, 1))
	for n := range 200 {
		time.Sleep(time.Duration(random.IntN(6000)) * time.Millisecond)
		switch what := random.IntN(10); {
		case what == 0 && raceEnabled:
			// Upstream's cache has a race with it ("Why do some tests hide the Nodes").
		case what == 0:
			w.create(t, node(fmt.Sprintf("node-%d", n+1), fmt.Sprintf("slow://%d", n), corev1.ConditionTrue))
		case what == 1:
			c.replace(invoker)
		default:
			w.stepOf(t, fmt.Sprint("web-", random.IntN(20)), n, random.IntN(12))
		}
	}
	time.Sleep(6 * time.Hour)
	synctest.Wait()
	w.isAsItsServicesSay(t, c)
	w.stop()
	if err := invoker.Shutdown(context.Background()); err != nil || invoker.Counts().Running != 0 || invoker.Counts().Background != 0 {
		t.Errorf("%v, %+v", err, invoker.Counts())
	}
}

// stepOf is the nth change of the walk.
func (w *world) stepOf(t *testing.T, name string, n, what int) {
	t.Helper()
	s, err := w.service("default", name)
	switch {
	case err != nil:
		s = balanced(name)
		s.UID = types.UID(fmt.Sprint(name, "-", n))
		s.Annotations = map[string]string{revision: strconv.Itoa(n)}
		w.create(t, s)
	case s.DeletionTimestamp != nil:
	case s.Spec.Type != corev1.ServiceTypeLoadBalancer && servicehelper.HasLBFinalizer(s):
		// Upstream ensures one that is a load balancer again from a cache that is behind.
	case s.Spec.Type != corev1.ServiceTypeLoadBalancer:
		err = w.api.CoreV1().Services("default").Delete(t.Context(), name, metav1.DeleteOptions{})
	case what < 1 && servicehelper.HasLBFinalizer(s):
		w.change(t, "default", name, func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
	case what < 2:
		w.change(t, "default", name, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	default:
		w.change(t, "default", name, func(s *corev1.Service) { s.Annotations = map[string]string{revision: strconv.Itoa(n)} })
	}
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

func (w *world) isAsItsServicesSay(t *testing.T, c *moody) {
	t.Helper()
	list, err := w.api.CoreV1().Services("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wanted := 0
	for i := range list.Items {
		s := &list.Items[i]
		condition := meta.FindStatusCondition(s.Status.Conditions, Programmed)
		switch wants := s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.DeletionTimestamp == nil; {
		case !wants && (condition != nil || servicehelper.HasLBFinalizer(s) || len(s.Status.LoadBalancer.Ingress) > 0):
			t.Errorf("%s wants none: %+v, %v, %v", s.Name, condition, s.Finalizers, s.Status.LoadBalancer)
		case !wants:
		case condition == nil || condition.Reason != programmed || len(s.Status.LoadBalancer.Ingress) != 1 || !c.balances(s):
			t.Errorf("%s wants one: %+v, %v", s.Name, condition, s.Status.LoadBalancer)
		case c.made[s.Name] != s.Annotations[revision]:
			t.Errorf("%s is of revision %s, want %s", s.Name, c.made[s.Name], s.Annotations[revision])
		}
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.DeletionTimestamp == nil {
			wanted++
		}
	}
	if len(c.lbs) != wanted || wanted == 0 || c.clashes > 0 {
		t.Errorf("%d load balancers for %d Services, %d clashes", len(c.lbs), wanted, c.clashes)
	}
}
