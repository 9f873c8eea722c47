package controllers

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/async"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/provider"
)

// reconfigured is a cloud whose configuration changes.
type reconfigured struct {
	*failingCloud
	again *cloud // its Changed is that of the configuration
}

func newReconfigured() *reconfigured {
	return &reconfigured{newFailingCloud(nil), newCloud("")}
}

func (c *reconfigured) provider() Provider {
	p := c.failingCloud.provider()
	p.Cloud, p.Reconfigured = c, c.again.Changed
	p.Services = func(s *corev1.Service) bool { return s.Namespace == "" || c.owns(s.Name) }
	return p
}

// becomes has a generation serve, with another configuration or the same one.
func (c *reconfigured) becomes(another bool, fail error) {
	c.failingCloud.becomes(fail)
	if another {
		c.again.has(true, true, true, true)
	}
}

// times is how often a Service was ensured.
func (c *reconfigured) times(i int) int {
	c.cloud.mu.Lock()
	defer c.cloud.mu.Unlock()
	return c.calls[fmt.Sprintf("ensure a-%d", i)]
}

// inReview runs a test with that many Services that have a load balancer, and
// others: of no load balancer, and of another provider.
func inReview(t *testing.T, services int, test func(w *world, c *reconfigured)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t), newReconfigured()
		w.start(c.provider())
		w.sleep()
		for i := range services {
			w.create(t, balanced(fmt.Sprintf("a-%d", i)))
		}
		internal, other := balanced("a-internal"), balanced("b-0")
		internal.Spec.Type = corev1.ServiceTypeClusterIP
		w.create(t, internal)
		w.create(t, other)
		time.Sleep(time.Minute)
		if n := c.count("ensure a-"); n != services {
			t.Fatalf("%d ensures of %d Services", n, services)
		}
		test(w, c)
		w.stop()
	})
}

// Services that are in order are asked for again when the configuration has
// changed: slowly, each once, and no user waits for it.
func TestAChangedConfigurationReachesEveryService(t *testing.T) {
	inReview(t, 200, func(w *world, c *reconfigured) {
		c.becomes(true, nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := c.count("ensure") - 200; n < 40 || n > 60 {
			t.Errorf("%d ensures within 10 s, want 5 per second", n)
		}
		w.create(t, balanced("a-new"))
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if c.count("ensure a-new") != 1 {
			t.Error("a new Service waits for the others")
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		for i := range 200 {
			if n := c.times(i); n != 2 {
				t.Fatalf("Service %d was ensured %d times", i, n)
			}
		}
		if n := c.count("ensure b-") + c.count("ensure a-internal"); n > 0 {
			t.Errorf("%d ensures of Services that are not to be", n)
		}
		time.Sleep(time.Hour)
		if n := c.count("ensure"); n != 401 {
			t.Errorf("%d ensures in the end", n)
		}
	})
}

// An ensure that is under way when another configuration begins to serve is told, and
// the guest that serves is asked all the same.
func TestAnEnsureUnderWayIsAskedAgainUnderAnotherConfiguration(t *testing.T) {
	for _, latency := range []time.Duration{300 * time.Millisecond, 3 * time.Second, 25 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w, again := newWorld(t), newCloud("")
			c := &ofGeneration{slowCloud: newSlowCloud(latency)}
			invoker := async.New(c, async.Options{})
			w.start(Provider{Name: "slow", Cloud: provider.New(invoker), Changed: c.Changed, Reconfigured: again.Changed})
			w.sleep()
			for n := range 20 {
				w.create(t, balanced(fmt.Sprint("a-", n)))
			}
			time.Sleep(latency / 2)
			c.serving.Store(1)
			c.replace(invoker)
			again.has(true, true, true, true)
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			for n := range 20 {
				s, err := w.service("default", fmt.Sprint("a-", n))
				if err != nil || len(s.Status.LoadBalancer.Ingress) != 1 || s.Status.LoadBalancer.Ingress[0].IP != "198.51.100.11" {
					t.Errorf("%v per op: a-%d is %v, %v", latency, n, s.Status.LoadBalancer, err)
				}
			}
			w.stop()
			if err := invoker.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// ofGeneration answers with the address of the generation that an op began with.
type ofGeneration struct {
	*slowCloud
	serving atomic.Int32
}

func (c *ofGeneration) Invoke(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	generation := c.serving.Load()
	err := c.slowCloud.Invoke(ctx, op, req, resp)
	if r, ok := resp.(*abi.LoadBalancerEnsureResponse); ok && err == nil {
		r.Status.Ingress[0].Ip = fmt.Sprint("198.51.100.1", generation)
	}
	return err
}

// Another module with the same configuration, or a Secret, is no reason.
func TestTheSameConfigurationIsNoReview(t *testing.T) {
	inReview(t, 10, func(w *world, c *reconfigured) {
		c.becomes(false, nil)
		time.Sleep(time.Hour)
		if n := c.count("ensure"); n != 10 {
			t.Errorf("%d ensures of 10 Services", n)
		}
	})
}

// The next change begins anew, and the end of the loop ends it.
func TestAReviewTakesThePlaceOfTheOneBefore(t *testing.T) {
	inReview(t, 100, func(w *world, c *reconfigured) {
		for range 20 {
			c.becomes(true, nil)
			time.Sleep(time.Second)
		}
		if n := c.count("ensure") - 100; n > 100 {
			t.Errorf("%d ensures within 20 s", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for i := range 100 {
			if c.times(i) < 2 {
				t.Fatalf("Service %d was left out", i)
			}
		}
		c.becomes(true, nil)
		time.Sleep(time.Second)
		<-w.loops.Remove("a")
		before := c.count("ensure")
		time.Sleep(time.Minute)
		if n := c.count("ensure"); n != before {
			t.Errorf("%d ensures after the end of the loop", n-before)
		}
	})
}

// Of a cloud that takes long few ops are under way at once.
func TestAReviewOfASlowCloudIsSlower(t *testing.T) {
	inReview(t, 20, func(w *world, c *reconfigured) {
		c.becomes(true, cloudproviderapi.NewRetryError("in progress", time.Hour))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := c.count("ensure") - 20; n < 8 || n > 12 {
			t.Errorf("%d ensures within 10 s, want one per second", n)
		}
	})
}

// A Service that goes meanwhile does not hold up the others for long.
func TestAReviewGoesOnBehindWhatIsDeleted(t *testing.T) {
	inReview(t, 4, func(w *world, c *reconfigured) {
		c.becomes(true, nil)
		synctest.Wait()
		if err := w.api.CoreV1().Services("default").Delete(t.Context(), "a-0", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		for i := range 3 {
			if n := c.times(i + 1); n != 2 {
				t.Errorf("Service %d was ensured %d times", i+1, n)
			}
		}
	})
}
