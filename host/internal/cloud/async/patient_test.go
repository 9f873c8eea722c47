package async

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
)

// patiently asks as the loop of Services does.
func patiently(i *Invoker, op abi.Op, service string) error {
	ctx := opcontext.WithPatience(about(service))
	var resp abi.Message = &abi.Done{}
	switch op {
	case abi.OpLoadBalancerUpdate:
		ctx = opcontext.InPass(ctx)
	case abi.OpLoadBalancerGet:
		resp = &abi.LoadBalancerGetResponse{}
	case abi.OpLoadBalancerEnsure:
		resp = &abi.LoadBalancerEnsureResponse{}
	}
	return i.Invoke(ctx, op, request(service), resp)
}

// Whatever the pace of the cloud, and whatever changes meanwhile, one call is one op
// and gets its end.
func TestAPatientCallerGetsTheEnd(t *testing.T) {
	for _, takes := range []time.Duration{20 * time.Millisecond, 3 * time.Second, 10 * time.Second, 25 * time.Second} {
		t.Run(takes.String(), func(t *testing.T) {
			next, calls := taking(always(takes))
			within(t, next, Options{}, func(t *testing.T, i *Invoker, o *observed) {
				for n := range 5 {
					began := time.Now()
					if err := patiently(i, abi.OpLoadBalancerEnsure, fmt.Sprint("web-", n)); err != nil || time.Since(began) != takes {
						t.Errorf("after %v: %v", time.Since(began), err)
					}
				}
				if calls.Load() != 5 || o.most != 0 {
					t.Errorf("%d calls, %d out of the ordinary", calls.Load(), o.most)
				}
			})
		})
	}
}

// The four ops of one Service never run beside each other, whoever waits for them.
func TestOpsOnOneServiceAreSerialised(t *testing.T) {
	var running, most atomic.Int32
	next := &fakeNext{invoke: func(context.Context, abi.Op, abi.Message, abi.Message) error {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		time.Sleep(time.Second)
		return nil
	}}
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		var group sync.WaitGroup
		for _, op := range []abi.Op{abi.OpLoadBalancerGet, abi.OpLoadBalancerEnsure, abi.OpLoadBalancerUpdate, abi.OpLoadBalancerDelete} {
			group.Go(func() { _ = patiently(i, op, "web") })
			group.Go(func() { _ = invoke(i, op, "web") })
		}
		ctx, cancel := context.WithCancel(opcontext.WithPatience(about("web")))
		cancel()
		if err := i.Invoke(ctx, abi.OpLoadBalancerEnsure, request("web"), &abi.LoadBalancerEnsureResponse{}); err == nil {
			t.Error("who has gone waits on")
		}
		group.Wait()
		if most.Load() != 1 {
			t.Errorf("%d ops at once on one Service", most.Load())
		}
	})
}

// Of a cloud that is usually fast, ops that hang hold half of the instances at most,
// and each of them once for its time: who waits behind them is not held up.
func TestPatientOpsThatHangLeaveInstancesToOthers(t *testing.T) {
	next, _ := taking(func(_ abi.Op, service string) time.Duration {
		if strings.HasPrefix(service, "hangs") {
			return -1
		}
		return 20 * time.Millisecond
	})
	within(t, next, Options{}, func(t *testing.T, i *Invoker, o *observed) {
		if err := patiently(i, abi.OpLoadBalancerEnsure, "known"); err != nil {
			t.Fatal(err)
		}
		var hanging, healthy sync.WaitGroup
		for n := range 20 {
			hanging.Go(func() { _ = patiently(i, abi.OpLoadBalancerEnsure, fmt.Sprint("hangs-", n)) })
		}
		synctest.Wait()
		began := time.Now()
		for n := range 20 {
			healthy.Go(func() {
				if err := patiently(i, abi.OpLoadBalancerEnsure, fmt.Sprint("web-", n)); err != nil {
					t.Error(err)
				}
			})
		}
		healthy.Wait()
		took := time.Since(began)
		hanging.Wait()
		if took > 2*time.Second || o.most > 4 {
			t.Errorf("20 healthy ones beside 20 that hang took %v, with %d in the background", took, o.most)
		}
	})
}

// As long as nothing is known a slow op is not ended half done.
func TestASlowCloudIsNotEndedAtTheStart(t *testing.T) {
	next, calls := taking(always(25 * time.Second))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		var group sync.WaitGroup
		for n := range 20 {
			group.Go(func() {
				if err := patiently(i, abi.OpLoadBalancerEnsure, fmt.Sprint("web-", n)); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if calls.Load() != 20 {
			t.Errorf("%d calls for 20 Services", calls.Load())
		}
	})
}

// Upstream updates all load balancers in one pass, so one that hangs is left; the
// ensure that follows waits for its end.
func TestAnUpdateOutOfTheOrdinaryIsLeft(t *testing.T) {
	next, _ := taking(func(op abi.Op, service string) time.Duration {
		if op == abi.OpLoadBalancerUpdate && service == "hangs" {
			return -1
		}
		return 3 * time.Second
	})
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		if err := patiently(i, abi.OpLoadBalancerEnsure, "hangs"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		retry(t, patiently(i, abi.OpLoadBalancerUpdate, "hangs"))
		if took := time.Since(began); took != 6*time.Second {
			t.Errorf("left after %v", took)
		}
		if err := patiently(i, abi.OpLoadBalancerEnsure, "hangs"); err != nil || time.Since(began) != 33*time.Second {
			t.Errorf("%v, after %v", err, time.Since(began))
		}
		if err := patiently(i, abi.OpLoadBalancerUpdate, "other"); err != nil {
			t.Error(err)
		}
		began = time.Now()
		retry(t, patiently(i, abi.OpLoadBalancerUpdate, "hangs"))
		if time.Since(began) != 0 {
			t.Errorf("one that has hung before was waited for: %v", time.Since(began))
		}
	})
}

// A pass waits a while for an op on the Service, and no longer.
func TestAnUpdateWaitsAWhileForItsTurn(t *testing.T) {
	var takes atomic.Int64
	next, _ := taking(func(abi.Op, string) time.Duration { return time.Duration(takes.Load()) })
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		takes.Store(int64(3 * time.Second))
		if err := patiently(i, abi.OpLoadBalancerEnsure, "known"); err != nil {
			t.Fatal(err)
		}
		go func() { _ = patiently(i, abi.OpLoadBalancerEnsure, "web") }()
		synctest.Wait()
		if err := patiently(i, abi.OpLoadBalancerUpdate, "web"); err != nil {
			t.Errorf("behind an ensure of 3 s: %v", err)
		}
		takes.Store(int64(20 * time.Second))
		go func() { _ = patiently(i, abi.OpLoadBalancerEnsure, "web") }()
		synctest.Wait()
		began := time.Now()
		retry(t, patiently(i, abi.OpLoadBalancerUpdate, "web"))
		if took := time.Since(began); took != 9*time.Second { // three times what the one before took
			t.Errorf("behind an ensure of 20 s: left after %v", took)
		}
		time.Sleep(20 * time.Second)
	})
}

// A question to the generation before is asked again of the one that serves; a change
// goes on, and its caller hears of the end.
func TestAPatientCallerAsksTheGenerationThatServes(t *testing.T) {
	next, calls, mend := replaced()
	within(t, next, Options{}, func(t *testing.T, i *Invoker, o *observed) {
		asked, changed := make(chan error, 1), make(chan error, 1)
		go func() { asked <- patiently(i, abi.OpLoadBalancerGet, "web") }()
		go func() { changed <- patiently(i, abi.OpLoadBalancerEnsure, "other") }()
		time.Sleep(time.Second)
		mend()
		i.Reset()
		began := time.Now()
		if err := <-asked; err != nil || time.Since(began) > time.Second || calls.Load() != 3 {
			t.Errorf("%v after %v, %d calls", err, time.Since(began), calls.Load())
		}
		if err := <-changed; err == nil || time.Since(began) < 25*time.Second {
			t.Errorf("the change ended with %v after %v", err, time.Since(began))
		}
		if _, failing := i.Look(abi.GroupLoadBalancers, "default/other"); failing != nil {
			t.Errorf("the new generation counts %+v", failing)
		}
	})
}

// An update that waits behind a deletion is not made: a guest that makes what is not
// there would make a load balancer of no Service.
func TestAnUpdateDoesNotUndoADeletion(t *testing.T) {
	var order []string
	next := &fakeNext{invoke: func(_ context.Context, op abi.Op, _, _ abi.Message) error {
		order = append(order, op.String()) // one at a time, as they are of one Service
		time.Sleep(3 * time.Second)
		return nil
	}}
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		var group sync.WaitGroup
		if err := patiently(i, abi.OpLoadBalancerEnsure, "web"); err != nil {
			t.Fatal(err)
		}
		for _, op := range []abi.Op{abi.OpLoadBalancerDelete, abi.OpLoadBalancerUpdate} {
			group.Go(func() { _ = patiently(i, op, "web") })
			synctest.Wait()
		}
		group.Wait()
		if at := slices.Index(order, "lb_delete"); at != len(order)-1 {
			t.Errorf("%v", order)
		}
		if err := patiently(i, abi.OpLoadBalancerUpdate, "web"); err != nil { // of another Service of its name
			t.Error(err)
		}
	})
}

// A pass over all Services leaves instances to the one that waits for its address.
func TestAnEnsureDoesNotWaitForAPass(t *testing.T) {
	const takes = 300 * time.Millisecond
	next, _ := taking(always(takes))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		pass := thirtyUpdates(t, i)
		began := time.Now()
		if err := patiently(i, abi.OpLoadBalancerEnsure, "web"); err != nil || time.Since(began) != takes {
			t.Errorf("behind a pass an ensure took %v: %v", time.Since(began), err)
		}
		pass.Wait()
	})
}

// A cloud that takes a moment longer than it used to is waited for.
func TestWhatTakesASecondIsNotLeft(t *testing.T) {
	var takes atomic.Int64
	next, _ := taking(func(abi.Op, string) time.Duration { return time.Duration(takes.Load()) })
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		for _, d := range []time.Duration{time.Millisecond, time.Second} {
			takes.Store(int64(d))
			for n := range 3 {
				ctx, req := aboutNode(fmt.Sprint("node-", n))
				if err := i.Invoke(opcontext.WithPatience(ctx), abi.OpInstanceMetadata, req, &abi.InstanceMetadataResponse{}); err != nil {
					t.Errorf("a Node, in %v: %v", d, err)
				}
				if err := patiently(i, abi.OpLoadBalancerUpdate, fmt.Sprint("web-", n)); err != nil {
					t.Errorf("an update, in %v: %v", d, err)
				}
			}
		}
		takes.Store(int64(20 * time.Second))
		ctx, req := aboutNode("new")
		if err := i.Invoke(opcontext.WithPatience(ctx), abi.OpInstanceMetadata, req, &abi.InstanceMetadataResponse{}); err != nil {
			t.Errorf("a new Node, in 20 s: %v", err)
		}
	})
}

// thirtyUpdates is a pass over as many Services, which has begun.
func thirtyUpdates(t *testing.T, i *Invoker) *sync.WaitGroup {
	var pass sync.WaitGroup
	for n := range 30 {
		pass.Go(func() {
			if err := patiently(i, abi.OpLoadBalancerUpdate, fmt.Sprint("old-", n)); err != nil {
				t.Error(err)
			}
		})
	}
	synctest.Wait()
	return &pass
}

// Where each update takes long, a pass leaves most of the instances to others.
func TestASlowPassHasAQuarter(t *testing.T) {
	next, calls := taking(always(4 * time.Second))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		pass := thirtyUpdates(t, i)
		if n := calls.Load(); n != 2 {
			t.Errorf("%d of 8 instances", n)
		}
		pass.Wait()
	})
}

// A takeover ends no question that is about to be answered.
func TestAQuickAnswerIsHeardBesideATakeover(t *testing.T) {
	next, calls := taking(always(1500 * time.Millisecond))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		asked := make(chan error, 1)
		go func() { asked <- patiently(i, abi.OpLoadBalancerGet, "web") }()
		time.Sleep(time.Second)
		i.Reset()
		if err := <-asked; err != nil || calls.Load() != 1 {
			t.Errorf("%v, %d calls", err, calls.Load())
		}
	})
}
