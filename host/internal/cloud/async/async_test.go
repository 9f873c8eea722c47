package async

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/test/requests"
)

func TestInTimeIsAsIfNothingWasBetween(t *testing.T) {
	next, calls := taking(always(10 * time.Millisecond))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, o *observed) {
		start := time.Now()
		ip, err := ensure(i, "web")
		if err != nil || ip != "192.0.2.1" || time.Since(start) != 10*time.Millisecond {
			t.Errorf("%q, %v after %v", ip, err, time.Since(start))
		}
		if ip, err := ensure(i, "web"); err != nil || ip != "192.0.2.2" || calls.Load() != 2 {
			t.Errorf("the second: %q, %v, %d calls; a result in time is nobody else's", ip, err, calls.Load())
		}
		if len(i.objects) != 0 || o.most != 0 {
			t.Errorf("%d objects are remembered, %d were in the background", len(i.objects), o.most)
		}
	})
	failing := &fakeNext{invoke: func(context.Context, abi.Op, abi.Message, abi.Message) error {
		return &abi.Error{Code: abi.CodeInvalid, Message: "no such pool"}
	}}
	within(t, failing, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		for range 10 { // an answer is no failure, however often
			var answer *abi.Error
			if _, err := ensure(i, "web"); !errors.As(err, &answer) || answer.Message != "no such pool" {
				t.Fatalf("got %v", err)
			}
		}
	})
}

// chartService is a Service as a chart makes it: maps of more than one entry.
func chartService(name string) *abi.LoadBalancerRequest {
	req := request(name)
	req.Service.Labels = map[string]string{
		"app.kubernetes.io/name": name, "app.kubernetes.io/instance": name + "-prod", "app.kubernetes.io/version": "1.12.1",
		"app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": name + "-4.12.1",
	}
	req.Service.Annotations = map[string]string{
		"meta.helm.sh/release-name": name, "meta.helm.sh/release-namespace": "default", "external-dns.alpha.kubernetes.io/hostname": "www.example.com",
	}
	return req
}

// A controller asks with a request of its own each time, whose maps are encoded
// in another order each time.
func TestASlowOpOnAServiceOfAChartIsCollected(t *testing.T) {
	next, calls := taking(always(3 * time.Second))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, o *observed) {
		for n := range 20 {
			web := fmt.Sprintf("web-%d", n)
			_, err := ensureIn(about(web), i, chartService(web))
			retry(t, err)
			time.Sleep(5 * time.Second)
			if _, err := ensureIn(about(web), i, chartService(web)); err != nil {
				t.Fatalf("the second time: %v", err)
			}
		}
		if calls.Load() != 20 || len(o.dropped) != 0 || i.results.bytes != 0 {
			t.Errorf("%d calls for 20 Services, dropped: %v, %d bytes left", calls.Load(), o.dropped, i.results.bytes)
		}
		changed := chartService("web-0")
		if _, err := ensureIn(about("web-0"), i, changed); err == nil {
			t.Fatal("a slow op is done at once")
		}
		time.Sleep(5 * time.Second)
		changed = chartService("web-0")
		changed.Service.Labels["app.kubernetes.io/version"] = "1.12.2"
		_, err := ensureIn(about("web-0"), i, changed)
		retry(t, err) // the result for another request is none for this one
	})
}

func TestASlowOpIsCollectedLater(t *testing.T) {
	next, calls := taking(always(20 * time.Second))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, o *observed) {
		start := time.Now()
		_, err := ensure(i, "web")
		retry(t, err)
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("it held its caller for %v", d)
		}
		for n := 0; n < 5; n++ {
			before := time.Now()
			_, err := ensure(i, "web")
			if delay := retry(t, err); delay > 15*time.Second {
				t.Errorf("asks again after %v", delay)
			}
			if !strings.Contains(err.Error(), "in progress for") {
				t.Errorf("error %q", err)
			}
			if d := time.Since(before); d != 0 {
				t.Errorf("asking again held the caller for %v", d)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(16 * time.Second)
		ip, err := ensure(i, "web")
		if err != nil || ip != "192.0.2.1" || calls.Load() != 1 {
			t.Errorf("collected %q, %v after %d calls", ip, err, calls.Load())
		}
		if o.done != 1 || o.most != 1 {
			t.Errorf("observed %+v", o)
		}
		_, err = ensure(i, "web") // a result is handed over once
		retry(t, err)
		if calls.Load() != 2 {
			t.Errorf("%d calls", calls.Load())
		}
	})
}

func TestTheOpOutlivesItsCaller(t *testing.T) {
	next, _ := taking(always(5 * time.Second))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		ctx, cancel := context.WithCancel(about("web"))
		time.AfterFunc(10*time.Millisecond, cancel)
		if _, err := ensureIn(ctx, i, request("web")); err == nil {
			t.Error("no error for a caller that left")
		}
		time.Sleep(6 * time.Second)
		if ip, err := ensure(i, "web"); err != nil || ip != "192.0.2.1" {
			t.Errorf("%q, %v", ip, err)
		}
	})
}

func TestAnotherRequestGetsNoOldResult(t *testing.T) {
	node := func(name, id string) *corev1.Node {
		n := &corev1.Node{}
		n.Name, n.Spec.ProviderID, n.ResourceVersion = name, id, fmt.Sprint(time.Now().UnixNano())
		return n
	}
	next, calls := taking(always(5 * time.Second))
	for name, test := range map[string]struct {
		req   *abi.LoadBalancerRequest
		nodes []*corev1.Node
		same  bool
	}{
		"the same":             {request("web"), []*corev1.Node{node("b", "2"), node("a", "1")}, true},
		"another port":         {requests.LoadBalancer("default", "web", func(s *corev1.Service) { s.Spec.Ports[0].Port++ }), []*corev1.Node{node("a", "1"), node("b", "2")}, false},
		"a node less":          {request("web"), []*corev1.Node{node("a", "1")}, false},
		"another provider ID":  {request("web"), []*corev1.Node{node("a", "1"), node("b", "3")}, false},
		"names and IDs change": {request("web"), []*corev1.Node{node("a", "2"), node("b", "1")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			calls.Store(0)
			within(t, next, Options{}, func(t *testing.T, i *Invoker, o *observed) {
				_, err := ensureIn(about("web", node("a", "1"), node("b", "2")), i, request("web"))
				retry(t, err)
				time.Sleep(6 * time.Second)
				ip, err := ensureIn(about("web", test.nodes...), i, test.req)
				if test.same {
					if err != nil || ip != "192.0.2.1" {
						t.Errorf("%q, %v", ip, err)
					}
					return
				}
				if err == nil && ip == "192.0.2.1" {
					t.Error("got the result of another request")
				}
				if calls.Load() != 2 || o.dropped["superseded"] != 1 {
					t.Errorf("%d calls, dropped %v", calls.Load(), o.dropped)
				}
			})
		})
	}
}

// A deletion that ends in the background: upstream asks first whether the load
// balancer is there, and comes for the result only when the answer is yes.
func TestDeletionInTheBackground(t *testing.T) {
	for name, fails := range map[string]bool{"done": false, "fails": true} {
		t.Run(name, func(t *testing.T) {
			var deletions, running atomic.Int32
			next := &fakeNext{invoke: func(_ context.Context, op abi.Op, _, _ abi.Message) error {
				if running.Add(1) > 1 {
					t.Error("two ops at the same time on one Service")
				}
				defer running.Add(-1)
				if op == abi.OpLoadBalancerGet {
					return nil
				}
				deletions.Add(1)
				time.Sleep(10 * time.Second)
				if fails {
					return &abi.Error{Code: abi.CodeConflict, Message: "the subnet is in use"}
				}
				return nil
			}}
			within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
				if err := invoke(i, abi.OpLoadBalancerGet, "web"); err != nil {
					t.Fatal(err)
				}
				retry(t, invoke(i, abi.OpLoadBalancerDelete, "web"))
				retry(t, invoke(i, abi.OpLoadBalancerGet, "web"))
				time.Sleep(5 * time.Minute)
				if err := invoke(i, abi.OpLoadBalancerGet, "web"); err != nil {
					t.Fatal(err)
				}
				err := invoke(i, abi.OpLoadBalancerDelete, "web")
				if (err != nil) != fails || fails && err.Error() != "the subnet is in use" || deletions.Load() != 1 {
					t.Errorf("%v after %d deletions", err, deletions.Load())
				}
			})
		})
	}
}

func TestResultsExpire(t *testing.T) {
	next, calls := taking(always(5 * time.Second))
	within(t, next, Options{Instances: func() int { return 4000 }}, func(t *testing.T, i *Invoker, o *observed) {
		_, err := ensure(i, "web")
		retry(t, err)
		time.Sleep(time.Hour)
		_, err = ensure(i, "web")
		retry(t, err)
		if calls.Load() != 2 || o.dropped["expired"] != 1 {
			t.Errorf("%d calls, dropped %v", calls.Load(), o.dropped)
		}
		time.Sleep(10 * time.Second)
		var group sync.WaitGroup
		for n := range maxResults + 10 {
			group.Go(func() { _, _ = ensure(i, fmt.Sprint("many-", n)) })
		}
		group.Wait()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if i.results.count != maxResults || o.dropped["crowded"] != 11 {
			t.Errorf("%d results are kept, dropped %v", i.results.count, o.dropped)
		}
		time.Sleep(time.Hour)
		_, _ = ensure(i, "web") // whoever comes sweeps
		synctest.Wait()
		if i.results.count != 0 || i.results.bytes != 0 || len(i.objects) != 1 {
			t.Errorf("%d results, %d bytes, %d objects are kept", i.results.count, i.results.bytes, len(i.objects))
		}
	})
}

func TestShutdownEndsEverything(t *testing.T) {
	next, _ := taking(always(-1))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		_, err := ensure(i, "web")
		retry(t, err)
		start := time.Now()
		if err := i.Shutdown(context.Background()); err != nil || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if _, err := ensure(i, "other"); !errors.Is(err, errShutdown) {
			t.Errorf("after the shutdown: %v", err)
		}
	})
}

func TestHealthyNoticesWhatCannotBeEnded(t *testing.T) {
	release := make(chan struct{})
	synctest.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		i := New(&fakeNext{invoke: func(context.Context, abi.Op, abi.Message, abi.Message) error {
			<-release // ignores its context
			return nil
		}}, Options{})
		_, err := ensure(i, "web")
		retry(t, err)
		for range 60 {
			time.Sleep(time.Second)
			if err := i.Healthy(); err != nil {
				t.Fatalf("unhealthy in time: %v", err)
			}
		}
		time.Sleep(10 * time.Second)
		if err := i.Healthy(); err == nil || !strings.Contains(err.Error(), "lb_ensure default/web has been running for 1m1") {
			t.Errorf("got %v", err)
		}
		// Whoever asks meanwhile is not held, and others are served no more than
		// the room that is left.
		_, err = ensure(i, "web")
		retry(t, err)
		close(release)
		synctest.Wait()
		if err := i.Healthy(); err != nil {
			t.Errorf("after it ended: %v", err)
		}
	})
}

func TestAPanicFailsTheOpAlone(t *testing.T) {
	next := &fakeNext{invoke: func(context.Context, abi.Op, abi.Message, abi.Message) error { panic("index out of range") }}
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		if _, err := ensure(i, "web"); err == nil || !strings.Contains(err.Error(), "index out of range") {
			t.Errorf("got %v", err)
		}
	})
}
