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

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// hanging makes services whose name starts with "hang" hang, others take d.
func hanging(d time.Duration) func(abi.Op, string) time.Duration {
	return func(_ abi.Op, service string) time.Duration {
		if strings.HasPrefix(service, "hang") {
			return -1
		}
		return d
	}
}

func TestHungOpsLeaveInstancesToOthers(t *testing.T) {
	for _, instances := range []int{2, 3, 8} {
		t.Run(fmt.Sprint(instances), func(t *testing.T) {
			next, _ := taking(hanging(10 * time.Millisecond))
			within(t, next, Options{Instances: func() int { return instances }}, func(t *testing.T, i *Invoker, o *observed) {
				if _, err := ensure(i, "first"); err != nil { // it knows how long ops take
					t.Fatal(err)
				}
				// One worker, as upstream has: 20 that hang, round after round.
				for round := range 10 {
					for n := range 20 {
						start := time.Now()
						_, err := ensure(i, fmt.Sprint("hang-", n))
						if err == nil {
							t.Fatal("no error")
						}
						if d := time.Since(start); d > 100*time.Millisecond || round > 0 && d > 0 {
							t.Errorf("round %d: %d held the worker for %v", round, n, d)
						}
						start = time.Now()
						if _, err := ensure(i, "web"); err != nil || time.Since(start) > 50*time.Millisecond {
							t.Errorf("round %d: op beside: %v after %v", round, err, time.Since(start))
						}
					}
					time.Sleep(time.Second)
				}
				if want := max(instances/2, 1); o.most != want {
					t.Errorf("%d were in the background, want %d", o.most, want)
				}
				if o.busy == 0 {
					t.Error("nobody heard that there was no room")
				}
			})
		})
	}
}

func TestHungOpsAllAtOnce(t *testing.T) {
	next, _ := taking(hanging(10 * time.Millisecond))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, o *observed) {
		var group sync.WaitGroup
		for n := range 8 {
			group.Go(func() { _, _ = ensure(i, fmt.Sprint("hang-", n)) })
		}
		synctest.Wait()
		start := time.Now()
		if _, err := ensure(i, "web"); err != nil || time.Since(start) > 5100*time.Millisecond { // nothing is known, once
			t.Errorf("op 9: %v after %v", err, time.Since(start))
		}
		for n := range 50 {
			group.Go(func() { _, _ = ensure(i, fmt.Sprint("hang-", n)) })
		}
		group.Wait()
		if o.most > 4 {
			t.Errorf("%d in the background", o.most)
		}
		start = time.Now()
		if _, err := ensure(i, "web"); err != nil || time.Since(start) > 10*time.Millisecond {
			t.Errorf("later: %v after %v", err, time.Since(start))
		}
	})
}

// Many routes do not hold up a Service: groups take turns.
func TestGroupsTakeTurns(t *testing.T) {
	next, _ := taking(always(time.Second))
	within(t, next, Options{QueueTimeout: time.Hour, MaxBackground: 1, Instances: func() int { return 2 }}, func(t *testing.T, i *Invoker, _ *observed) {
		i.learn(abi.OpRouteCreate, time.Second)
		i.learn(abi.OpLoadBalancerEnsure, time.Second)
		var group sync.WaitGroup
		for n := range 200 {
			req := &abi.RouteCreateRequest{NameHint: fmt.Sprint(n)}
			group.Go(func() {
				if err := i.Invoke(about(fmt.Sprint("route-", n)), abi.OpRouteCreate, req, &abi.Done{}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		if _, err := ensure(i, "web"); err != nil || time.Since(start) > 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		group.Wait()
		if d := time.Since(start); d < 99*time.Second || d > 102*time.Second {
			t.Errorf("200 routes of a second took %v with 2 instances", d)
		}
	})
}

func TestTheQueueIsBounded(t *testing.T) {
	next, calls := taking(always(time.Minute))
	within(t, next, Options{Foreground: time.Hour, OpTimeout: time.Hour, Instances: func() int { return 1 }}, func(t *testing.T, i *Invoker, o *observed) {
		i.learn(abi.OpLoadBalancerEnsure, time.Hour)
		go func() { _, _ = ensure(i, "web") }()
		synctest.Wait()
		start := time.Now()
		_, err := ensure(i, "other")
		retry(t, err)
		if d := time.Since(start); d != 10*time.Second || !strings.Contains(err.Error(), "busy") {
			t.Errorf("%v after %v", err, d)
		}
		for n := range maxWaiting {
			go func() { _, _ = ensure(i, fmt.Sprint("other-", n)) }()
		}
		synctest.Wait()
		start = time.Now()
		_, err = ensure(i, "last")
		retry(t, err)
		if time.Since(start) != 0 {
			t.Errorf("the queue is full, and yet it waited for %v", time.Since(start))
		}
		synctest.Wait()
		o.mu.Lock()
		busy := o.busy
		o.mu.Unlock()
		if calls.Load() != 1 || busy < 2 {
			t.Errorf("%d calls, busy %d", calls.Load(), busy)
		}
		time.Sleep(time.Minute)
	})
}

// With one instance the background may take it: else no op could take longer
// than its time in the foreground.
func TestOneInstance(t *testing.T) {
	next, _ := taking(func(_ abi.Op, service string) time.Duration {
		if service == "slow" {
			return 20 * time.Second
		}
		return 10 * time.Millisecond
	})
	within(t, next, Options{Instances: func() int { return 1 }}, func(t *testing.T, i *Invoker, _ *observed) {
		_, err := ensure(i, "slow")
		retry(t, err)
		start := time.Now()
		_, err = ensure(i, "web")
		retry(t, err)
		if time.Since(start) != 0 {
			t.Errorf("held for %v", time.Since(start))
		}
		time.Sleep(20 * time.Second)
		if _, err := ensure(i, "slow"); err != nil {
			t.Error(err)
		}
		if _, err := ensure(i, "web"); err != nil {
			t.Error(err)
		}
	})
}

// A Service is asked for by two controllers at the same time.
func TestTwoCallers(t *testing.T) {
	var running, most atomic.Int32
	next, calls := taking(always(80 * time.Millisecond))
	inner := next.invoke
	next.invoke = func(ctx context.Context, op abi.Op, req, resp abi.Message) error {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		return inner(ctx, op, req, resp)
	}
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		var group sync.WaitGroup
		for range 5 { // the same: one op, and all get its answer
			group.Go(func() {
				if ip, err := ensure(i, "web"); err != nil || ip != "192.0.2.1" {
					t.Errorf("%q, %v", ip, err)
				}
			})
		}
		group.Wait()
		for _, op := range []abi.Op{abi.OpLoadBalancerGet, abi.OpLoadBalancerUpdate} {
			group.Go(func() {
				if err := invoke(i, op, "web"); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if calls.Load() != 3 || most.Load() != 1 {
			t.Errorf("%d calls, %d at once", calls.Load(), most.Load())
		}
	})
}

func TestAnObjectThatHangsIsBackedOff(t *testing.T) {
	next, calls := taking(hanging(10 * time.Millisecond))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, o *observed) {
		for range 40 * 60 { // 40 minutes, asking every second
			if _, err := ensure(i, "hang"); err == nil {
				t.Fatal("no error")
			}
			time.Sleep(time.Second)
		}
		asked := calls.Load()
		// Three at once, then 10, 20, 40, 80, 160 s and five minutes between.
		if asked < 10 || asked > 14 {
			t.Errorf("the guest was asked %d times in 40 minutes", asked)
		}
		want := "hang lb_ensure 3 10s the provider did not answer"
		if len(o.backedOff) == 0 || !strings.HasPrefix(o.backedOff[0], want) {
			t.Errorf("observed %q, want %q", o.backedOff, want)
		}
		if last := o.backedOff[len(o.backedOff)-1]; !strings.Contains(last, " 5m0s ") {
			t.Errorf("the last delay: %q", last)
		}
		time.Sleep(time.Minute)
		_, err := ensure(i, "hang")
		if delay := retry(t, err); delay > 5*time.Minute || !strings.Contains(err.Error(), "in a row, the last time with: the provider did not answer") {
			t.Errorf("%v after %v", err, delay)
		}
		if _, err := ensure(i, "web"); err != nil {
			t.Errorf("another object: %v", err)
		}
		before := calls.Load()
		i.Reset() // a new generation
		_, err = ensure(i, "hang")
		retry(t, err)
		if calls.Load() != before+1 {
			t.Error("the new generation was not asked")
		}
	})
}

func TestAnObjectThatCrashesIsBackedOff(t *testing.T) {
	var calls atomic.Int32
	var fine atomic.Bool
	next := &fakeNext{invoke: func(_ context.Context, _ abi.Op, req, _ abi.Message) error {
		calls.Add(1)
		if fine.Load() || req.(*abi.LoadBalancerRequest).Service.Name != "web" {
			return nil
		}
		return errors.New("unreachable")
	}}
	within(t, next, Options{}, func(t *testing.T, i *Invoker, o *observed) {
		for n := range 3 {
			if err := invoke(i, abi.OpLoadBalancerDelete, "web"); err == nil || err.Error() != "unreachable" {
				t.Errorf("crash %d: %v", n, err)
			}
		}
		err := invoke(i, abi.OpLoadBalancerDelete, "web")
		if delay := retry(t, err); delay != 10*time.Second || calls.Load() != 3 || len(o.backedOff) != 1 {
			t.Errorf("delay %v, %d calls, observed %q", delay, calls.Load(), o.backedOff)
		}
		if err := invoke(i, abi.OpLoadBalancerDelete, "other"); err != nil {
			t.Errorf("another object: %v", err)
		}
		time.Sleep(10 * time.Second)
		fine.Store(true)
		for range 3 { // a success is a new start
			if err := invoke(i, abi.OpLoadBalancerDelete, "web"); err != nil {
				t.Error(err)
			}
		}
		fine.Store(false)
		if err := invoke(i, abi.OpLoadBalancerDelete, "web"); err == nil || err.Error() != "unreachable" {
			t.Errorf("after a success: %v", err)
		}
		time.Sleep(2 * time.Hour)
		_ = invoke(i, abi.OpLoadBalancerGet, "other")
		if len(i.objects) != 0 {
			t.Errorf("%d objects are remembered for ever", len(i.objects))
		}
	})
}

func TestFreshSharesNothing(t *testing.T) {
	next, calls := taking(always(5 * time.Second))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		req, resp := request("web"), &abi.LoadBalancerEnsureResponse{}
		_, err := ensure(i, "web")
		retry(t, err)
		retry(t, i.InvokeFresh(about("web"), abi.OpLoadBalancerEnsure, req, resp))
		time.Sleep(6 * time.Second)
		if calls.Load() != 2 {
			t.Errorf("%d calls", calls.Load())
		}
		if err := i.InvokeFresh(about("web"), abi.OpLoadBalancerEnsure, req, resp); err != nil || resp.Status.Ingress[0].Ip != "192.0.2.2" {
			t.Errorf("%v, %v", resp.Status, err)
		}
	})
}

func TestPatience(t *testing.T) {
	i := New(&fakeNext{}, Options{})
	check := func(want time.Duration) {
		t.Helper()
		if got := i.patience(abi.OpLoadBalancerEnsure); got != want {
			t.Errorf("patience %v, want %v", got, want)
		}
	}
	check(firstPatience)
	i.learn(abi.OpLoadBalancerEnsure, time.Millisecond)
	check(50 * time.Millisecond)
	for range 100 {
		i.learn(abi.OpLoadBalancerEnsure, 20*time.Millisecond)
	}
	check(160 * time.Millisecond)
	for range 15 { // fewer than half of the last ones
		i.learn(abi.OpLoadBalancerEnsure, time.Hour)
	}
	check(160 * time.Millisecond)
	i.learn(abi.OpLoadBalancerEnsure, time.Hour)
	check(2 * time.Second)
	i.Reset() // how long ops take is the cloud's
	check(2 * time.Second)
	if got := i.patience(abi.OpInstanceExists); got != firstPatience {
		t.Errorf("patience %v for a kind of which nothing is known", got)
	}
}
