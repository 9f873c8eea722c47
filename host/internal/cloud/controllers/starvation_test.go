package controllers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/controllers/service"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/async"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/provider"
)

const (
	// restless is how long something changes, and restful how long nothing does
	// after it.
	restless = 3 * time.Minute
	restful  = 3 * time.Minute
	// starved is what one who never gets an answer has waited.
	starved  = restless + restful
	revision = "example.com/revision"
	// hangs is the revision of one that never gets a load balancer.
	hangs = "hangs"
)

// busyCloud has load balancers, and takes its time to make or change one. It is a
// native provider.
type busyCloud struct {
	cloudprovider.Interface
	takes time.Duration

	mu            sync.Mutex
	calls         map[abi.Op]int
	running       int
	clashes       int    // ops that began while another ran
	exists        bool   // the load balancer
	wants, behind string // the revision that it was made of, and its Nodes
}

func newBusyCloud(takes time.Duration) *busyCloud {
	return &busyCloud{takes: takes, calls: map[abi.Op]int{}}
}

// call runs one op on the load balancer.
func (c *busyCloud) call(ctx context.Context, op abi.Op, wants string, nodes []*corev1.Node) error {
	c.enter(op)
	defer c.leave()
	takes := 20 * time.Millisecond
	if op.Writes() {
		takes = c.takes
	}
	if wants == hangs {
		takes = 30 * time.Second
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	if wants == hangs {
		return errors.New("the cloud did not answer")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch op {
	case abi.OpLoadBalancerEnsure:
		c.exists, c.wants, c.behind = true, wants, nodeNames(nodes)
	case abi.OpLoadBalancerUpdate:
		c.behind = nodeNames(nodes)
	case abi.OpLoadBalancerDelete:
		c.exists = false
	}
	return nil
}

func (c *busyCloud) enter(op abi.Op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[op]++
	if c.running++; c.running > 1 {
		c.clashes++
	}
}

func (c *busyCloud) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
}

func (c *busyCloud) there() (exists bool, status string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exists, hostname(c.wants)
}

// writes are the calls by which a Service came to its load balancer.
func (c *busyCloud) writes() int {
	return c.calls[abi.OpLoadBalancerEnsure] + c.calls[abi.OpLoadBalancerUpdate]
}

func hostname(revision string) string { return "revision-" + revision + ".example.com" }

func (c *busyCloud) ProviderName() string                             { return "busy" }
func (c *busyCloud) HasClusterID() bool                               { return true }
func (c *busyCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c, true }

func (c *busyCloud) GetLoadBalancerName(context.Context, string, *corev1.Service) string { return "" }

func (c *busyCloud) EnsureLoadBalancerDeleted(ctx context.Context, _ string, _ *corev1.Service) error {
	return c.call(ctx, abi.OpLoadBalancerDelete, "", nil)
}

func (c *busyCloud) GetLoadBalancer(ctx context.Context, _ string, _ *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	err := c.call(ctx, abi.OpLoadBalancerGet, "", nil)
	exists, name := c.there()
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: name}}}, exists, err
}

func (c *busyCloud) EnsureLoadBalancer(ctx context.Context, _ string, s *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	wants := s.Annotations[revision]
	err := c.call(ctx, abi.OpLoadBalancerEnsure, wants, nodes)
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: hostname(wants)}}}, err
}

func (c *busyCloud) UpdateLoadBalancer(ctx context.Context, _ string, _ *corev1.Service, nodes []*corev1.Node) error {
	return c.call(ctx, abi.OpLoadBalancerUpdate, "", nodes)
}

// busyGuest is the same cloud as a guest asks it.
type busyGuest struct{ *busyCloud }

// Supports implements opcontext.Invoker.
func (busyGuest) Supports(op abi.Op) bool { return op.Group() == abi.GroupLoadBalancers }

func (g busyGuest) InvokeFresh(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return g.Invoke(ctx, op, req, resp)
}

func (g busyGuest) Invoke(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	wants := req.(*abi.LoadBalancerRequest).Service.Annotations[revision]
	if err := g.call(ctx, op, wants, opcontext.FromContext(ctx).Nodes); err != nil {
		return err
	}
	switch r := resp.(type) {
	case *abi.LoadBalancerGetResponse:
		exists, name := g.there()
		r.Existence = abi.Existence_EXISTENCE_DOES_NOT_EXIST
		if exists {
			r.Existence, r.Status = abi.Existence_EXISTENCE_EXISTS, reachedAt(name)
		}
	case *abi.LoadBalancerEnsureResponse:
		r.Status = reachedAt(hostname(wants))
	case *abi.Done:
		r.Done = true
	}
	return nil
}

func reachedAt(name string) *abi.LoadBalancerStatus {
	return &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{{Hostname: name}}}
}

// restlessness is what happened to a Service while something changed.
type restlessness struct {
	first    time.Duration // until its first address
	cloud    *busyCloud
	revision string // the last one
	behind   string // the last Nodes
	status   string // the last one, its address
}

// String is a column of the table.
func (r restlessness) String() string {
	first := r.first.Round(100 * time.Millisecond).String()
	if r.first == starved {
		first = "never"
	}
	return fmt.Sprintf("%8s %4d %4d %4d", first, r.cloud.calls[abi.OpLoadBalancerEnsure], r.cloud.calls[abi.OpLoadBalancerUpdate], r.cloud.calls[abi.OpLoadBalancerGet])
}

// TestNobodyStarves has Nodes, or one annotation, change more or less often than a
// cloud takes for a load balancer, for
// three minutes. The first address comes as soon as by upstream's service controller
// over the same cloud, for no more calls, and the last word is that of the last change.
func TestNobodyStarves(t *testing.T) {
	klog.SetLogger(logr.Discard()) // thousands of lines
	t.Cleanup(klog.ClearLogger)
	speeds := []time.Duration{3 * time.Second, 5 * time.Second, 10 * time.Second, 25 * time.Second}
	if testing.Short() {
		speeds = speeds[2:3] // make test-all runs all
	}
	t.Logf("%-10s %6s %6s | %-23s | %-23s", "changes", "every", "takes", "native: first en up get", "here: first en up get")
	for _, changes := range []string{"Nodes", "annotation"} {
		for _, takes := range speeds {
			for _, every := range []time.Duration{2 * time.Second, 4 * time.Second, 6 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second} {
				native, here := newBusyCloud(takes), newBusyCloud(takes)
				one := whileRestless(t, native, startNative, changes, every)
				other := whileRestless(t, here, startLoops, changes, every)
				t.Logf("%-10s %6v %6v | %s | %s", changes, every, takes, one, other)
				other.isAsGoodAs(t, one, fmt.Sprintf("%s change every %v, an ensure takes %v", changes, every, takes))
			}
		}
	}
}

// isAsGoodAs allows a tenth and a second more than natively.
func (r restlessness) isAsGoodAs(t *testing.T, native restlessness, what string) {
	t.Helper()
	if most := native.first*11/10 + time.Second; r.first > most {
		t.Errorf("%s: the first address came after %v, natively after %v", what, r.first, native.first)
	}
	if most := native.cloud.writes()*11/10 + 2; r.cloud.writes() > most {
		t.Errorf("%s: %d calls that write, natively %d", what, r.cloud.writes(), native.cloud.writes())
	}
	if r.cloud.clashes > 0 {
		t.Errorf("%s: %d times two ops on one Service ran at the same time", what, r.cloud.clashes)
	}
	if r.status != hostname(r.revision) || r.cloud.wants != r.revision {
		t.Errorf("%s: at the end the Service has %q and the cloud revision %q, want %q", what, r.status, r.cloud.wants, r.revision)
	}
	if r.cloud.behind != r.behind {
		t.Errorf("%s: at the end the load balancer has the Nodes%s, want%s", what, r.cloud.behind, r.behind)
	}
}

// startNative runs upstream's service controller over the cloud; startLoops runs the
// manager's loops.
func startNative(w *world, c *busyCloud) (stop func()) {
	informers := w.completed.SharedInformers
	controller, err := service.New(c, w.api, informers.Core().V1().Services(), informers.Core().V1().Nodes(), "c", featuregate.NewFeatureGate())
	if err != nil {
		w.t.Fatal(err)
	}
	informers.Start(w.ctx.Done())
	go controller.Run(w.ctx, 1, w.metrics)
	return func() {}
}

func startLoops(w *world, c *busyCloud) (stop func()) {
	return startLoopsWith(w, c, async.Options{})
}

func startLoopsWith(w *world, c *busyCloud, o async.Options) (stop func()) {
	invoker := async.New(busyGuest{c}, o)
	w.start(Provider{Name: "busy", Cloud: provider.New(invoker)})
	return func() {
		if err := invoker.Shutdown(context.Background()); err != nil {
			w.t.Error(err)
		}
	}
}

func whileRestless(t *testing.T, c *busyCloud, start func(*world, *busyCloud) func(), changes string, every time.Duration) (r restlessness) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("node-0", "busy://0", corev1.ConditionTrue))
		w.ctx = klog.NewContext(w.ctx, logr.Discard())
		stop := start(w, c)
		w.sleep()
		first := w.firstAddress()
		begun := time.Now()
		web := balanced("web")
		web.Annotations = map[string]string{revision: "0"}
		w.create(t, web)
		r = restlessness{first: starved, cloud: c}
		for n := 1; time.Since(begun)+every < restless; n++ {
			time.Sleep(every)
			w.disturb(t, changes, n)
		}
		time.Sleep(restful)
		synctest.Wait()
		select {
		case at := <-first:
			r.first = at.Sub(begun)
		default:
		}
		w.lastWord(t, &r)
		w.stop()
		stop()
	})
	return r
}

// disturb is the nth change: a Node comes, and goes at the next one.
func (w *world) disturb(t *testing.T, changes string, n int) {
	t.Helper()
	switch {
	case changes == "annotation":
		w.change(t, "default", "web", func(s *corev1.Service) { s.Annotations = map[string]string{revision: strconv.Itoa(n)} })
	case n%2 == 1:
		w.create(t, node(fmt.Sprintf("node-%d", n), fmt.Sprintf("busy://%d", n), corev1.ConditionTrue))
	default:
		if err := w.api.CoreV1().Nodes().Delete(t.Context(), fmt.Sprintf("node-%d", n-1), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) lastWord(t *testing.T, r *restlessness) {
	t.Helper()
	s, err := w.service("default", "web")
	if err != nil {
		t.Fatal(err)
	}
	r.revision = s.Annotations[revision]
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		r.status += ingress.Hostname
	}
	list, err := w.api.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		r.behind += " " + list.Items[i].Name
	}
}

// firstAddress gets when a Service gets its status.
func (w *world) firstAddress() <-chan time.Time {
	first := make(chan time.Time, 1)
	w.api.PrependReactor("patch", "services", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if strings.Contains(string(action.(clienttesting.PatchAction).GetPatch()), `"ingress"`) {
			select {
			case first <- time.Now():
			default:
			}
		}
		return false, nil, nil
	})
	return first
}

// With one instance, a Service behind many that hang waits no longer for its address
// than behind upstream's one worker.
func TestBehindManyThatHangWithOneInstance(t *testing.T) {
	klog.SetLogger(logr.Discard())
	t.Cleanup(klog.ClearLogger)
	one := func(w *world, c *busyCloud) func() {
		return startLoopsWith(w, c, async.Options{Instances: func() int { return 1 }})
	}
	native, here := behindMany(t, startNative), behindMany(t, one)
	t.Logf("natively %v, here %v", native, here)
	if here > native*11/10 {
		t.Errorf("it waited for %v, natively for %v", here, native)
	}
}

func behindMany(t *testing.T, start func(*world, *busyCloud) func()) (waited time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("node-0", "busy://0", corev1.ConditionTrue))
		w.ctx = klog.NewContext(w.ctx, logr.Discard())
		stop := start(w, newBusyCloud(20*time.Millisecond))
		w.sleep()
		first := w.firstAddress()
		create := func(name, wants string) {
			s := balanced(name)
			s.Annotations = map[string]string{revision: wants}
			w.create(t, s)
			synctest.Wait()
		}
		for n := range serviceWorkers {
			create(fmt.Sprint("hangs-", n), hangs)
		}
		begun := time.Now()
		create("web", "1")
		select {
		case at := <-first:
			waited = at.Sub(begun)
		case <-time.After(12 * time.Hour):
			waited = 12 * time.Hour // never
		}
		w.stop()
		stop()
	})
	return waited
}
