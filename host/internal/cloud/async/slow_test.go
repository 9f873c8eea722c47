package async

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/convert"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/test/requests"
	"github.com/wasm-ccm/wasm-ccm/testdata/objects"
)

// Upstream asks with an object of its own each time: a slow op on each object
// as people have them runs once, and its result is collected.
func TestASlowOpOnRealObjectsIsCollected(t *testing.T) {
	next, calls := taking(always(3 * time.Second))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, o *observed) {
		for name, s := range objects.Services(t) {
			ask := func() error {
				ctx := about(s.Name, objects.Nodes(t)["gke-like.yaml"], objects.Nodes(t)["k3s-dual-stack.yaml"])
				return i.Invoke(ctx, abi.OpLoadBalancerEnsure, &abi.LoadBalancerRequest{Service: convert.Service(s.DeepCopy())}, &abi.LoadBalancerEnsureResponse{})
			}
			retry(t, ask())
			time.Sleep(5 * time.Second)
			if err := ask(); err != nil {
				t.Errorf("%s: the second time: %v", name, err)
			}
		}
		for name, n := range objects.Nodes(t) {
			ask := func() error {
				req := &abi.InstanceRequest{Node: convert.Node(n.DeepCopy())}
				return i.Invoke(about(n.Name), abi.OpInstanceMetadata, req, &abi.InstanceMetadataResponse{})
			}
			retry(t, ask())
			time.Sleep(5 * time.Second)
			if err := ask(); err != nil {
				t.Errorf("%s: the second time: %v", name, err)
			}
		}
		if want := len(objects.Services(t)) + len(objects.Nodes(t)); int(calls.Load()) != want || len(o.dropped) != 0 {
			t.Errorf("%d calls for %d objects, dropped: %v", calls.Load(), want, o.dropped)
		}
	})
}

// On the deletion path upstream comes back after up to five minutes.
func TestAnAnswerWaitsForUpstreamsBackOff(t *testing.T) {
	next, calls := taking(always(10 * time.Second))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		retry(t, invoke(i, abi.OpLoadBalancerGet, "web"))
		time.Sleep(5 * time.Minute)
		if err := invoke(i, abi.OpLoadBalancerGet, "web"); err != nil || calls.Load() != 1 {
			t.Errorf("%v after %d questions", err, calls.Load())
		}
	})
}

// Whoever asked for an op that hung may come back for it after minutes, and
// hears only that the next one has just begun.
func TestAnOpThatHitItsDeadlineIsTold(t *testing.T) {
	next, _ := taking(always(-1))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, o *observed) {
		retry(t, invoke(i, abi.OpLoadBalancerGet, "web"))
		time.Sleep(31 * time.Second)
		o.mu.Lock()
		told := slices.Clone(o.unanswered)
		o.mu.Unlock()
		if len(told) != 1 || !strings.HasPrefix(told[0], "web lb_get 30s the provider did not answer") {
			t.Errorf("told %q", told)
		}
		if err := invoke(i, abi.OpLoadBalancerGet, "web"); err == nil || !strings.HasPrefix(err.Error(), "the provider did not answer") {
			t.Errorf("the end of the first: %v", err)
		}
		err := invoke(i, abi.OpLoadBalancerGet, "web")
		retry(t, err)
		if !strings.Contains(err.Error(), "it failed 1 times in a row before, the last time with: the provider did not answer") {
			t.Errorf("the beginning of the second: %v", err)
		}
	})
}

// An answer, also one that says no, is the answer's to tell.
func TestAnAnswerInTheBackgroundIsNotToldAsNone(t *testing.T) {
	next := &fakeNext{invoke: func(context.Context, abi.Op, abi.Message, abi.Message) error {
		time.Sleep(5 * time.Second)
		return &abi.Error{Code: abi.CodeConflict, Message: "in use"}
	}}
	within(t, next, Options{}, func(t *testing.T, i *Invoker, o *observed) {
		retry(t, invoke(i, abi.OpLoadBalancerDelete, "web"))
		time.Sleep(6 * time.Second)
		if len(o.unanswered) != 0 {
			t.Errorf("told %q", o.unanswered)
		}
	})
}

// The loop of routes begins with their list and changes them all at once: a
// cloud that takes a second is no reason for a round to fail.
func TestRoutesAreWaitedFor(t *testing.T) {
	next, _ := taking(func(op abi.Op, _ string) time.Duration {
		if op == abi.OpRouteList {
			return 20 * time.Second
		}
		return time.Second
	})
	within(t, next, Options{}, func(t *testing.T, i *Invoker, o *observed) {
		i.learn(abi.OpRouteDelete, 6*time.Second)
		if got := i.patience(abi.OpRouteDelete); got != 12*time.Second {
			t.Errorf("patience %v where 6s are usual", got)
		}
		for range 3 {
			if err := i.Invoke(about(""), abi.OpRouteList, &abi.RouteListRequest{}, &abi.RouteListResponse{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := i.Invoke(about("node-1"), abi.OpRouteCreate, &abi.RouteCreateRequest{}, &abi.Done{}); err != nil {
			t.Error(err)
		}
		if o.most != 0 {
			t.Errorf("%d were in the background", o.most)
		}
	})
}

// Ending an op that is only slow leaves its cloud half done, and it begins anew.
func TestASlowOpIsNotEndedForLackOfRoom(t *testing.T) {
	var began, ended atomic.Int32
	next := &fakeNext{invoke: func(ctx context.Context, _ abi.Op, _, _ abi.Message) error {
		began.Add(1)
		select {
		case <-time.After(3 * time.Second):
			ended.Add(1)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		for range 2 { // nothing is known, then it is
			var group sync.WaitGroup
			for n := range 8 {
				group.Go(func() {
					ctx := opcontext.NewContext(context.Background(), opcontext.Op{Serial: fmt.Sprint("Service ", began.Load(), n)})
					var answer *abi.Error
					if err := i.Invoke(ctx, abi.OpLoadBalancerEnsure, request("web"), &abi.LoadBalancerEnsureResponse{}); err != nil && !errors.As(err, &answer) {
						t.Error(err)
					}
				})
			}
			group.Wait()
			time.Sleep(10 * time.Second)
		}
		if began.Load() != 16 || ended.Load() != 16 {
			t.Errorf("%d ops began, %d came to their end", began.Load(), ended.Load())
		}
	})
}

// Upstream asks one Node after the other, and begins anew at the end: an answer
// is collected before it expires, however many Nodes there are.
func TestManyNodesOfASlowCloudAreAnswered(t *testing.T) {
	next, _ := taking(always(3 * time.Second))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, o *observed) {
		answered, confirmed, order := map[int]bool{}, 0, rand.New(rand.NewPCG(1, 2))
		var all []*abi.InstanceRequest
		for n := range 200 {
			all = append(all, requests.Instance(fmt.Sprint("node-", n)))
		}
		for range 60 { // five minutes
			for _, n := range order.Perm(200) { // a lister has none
				name, req := all[n].Node.Name, all[n]
				if i.Invoke(about(name), abi.OpInstanceExists, req, &abi.InstanceExistsResponse{}) == nil {
					answered[n] = true
				}
				// One of them is said to be gone: the deletion brake asks again.
				if n == 0 && i.InvokeFresh(about(name), abi.OpInstanceExists, req, &abi.InstanceExistsResponse{}) == nil {
					confirmed++
				}
			}
			// Meanwhile there is room for a Service.
			if err := invoke(i, abi.OpLoadBalancerUpdate, "web"); err != nil && !strings.Contains(err.Error(), "in progress") {
				t.Errorf("beside the Nodes: %v", err)
			}
			time.Sleep(5 * time.Second)
		}
		if confirmed < 20 {
			t.Errorf("a fresh instance answered %d times in five minutes", confirmed)
		}
		if len(answered) < 80 || o.dropped["expired"] > 0 {
			t.Errorf("%d of 200 Nodes were answered in five minutes, dropped: %v", len(answered), o.dropped)
		}
	})
}

// What one generation answered is not what the next one is asked.
func TestAnswersOfTheGenerationBeforeAreDropped(t *testing.T) {
	next, calls := taking(always(5 * time.Second))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		retry(t, invoke(i, abi.OpLoadBalancerGet, "web"))
		retry(t, invoke(i, abi.OpLoadBalancerDelete, "changed"))
		time.Sleep(6 * time.Second)
		retry(t, invoke(i, abi.OpLoadBalancerGet, "late"))
		i.Reset()
		time.Sleep(6 * time.Second)
		before := calls.Load()
		for _, service := range []string{"web", "late"} {
			retry(t, invoke(i, abi.OpLoadBalancerGet, service))
		}
		// Of a change, too: another configuration may want another one.
		retry(t, invoke(i, abi.OpLoadBalancerDelete, "changed"))
		if n := calls.Load() - before; n != 3 {
			t.Errorf("the new generation was asked %d times, want 3", n)
		}
	})
}

// An op is asked for again when it is likely to be done.
func TestWhenToAskAgain(t *testing.T) {
	i := New(&fakeNext{}, Options{})
	for took, want := range map[time.Duration]time.Duration{0: time.Second, 4 * time.Second: 4 * time.Second, time.Minute: 15 * time.Second} {
		if got := i.retryDelay(abi.OpLoadBalancerEnsure, took); got != want {
			t.Errorf("nothing is known, after %v: %v, want %v", took, got, want)
		}
	}
	i.learn(abi.OpLoadBalancerEnsure, 8*time.Second)
	for took, want := range map[time.Duration]time.Duration{time.Second: 8 * time.Second, 7 * time.Second: 2 * time.Second, 10 * time.Second: 10 * time.Second} {
		if got := i.retryDelay(abi.OpLoadBalancerEnsure, took); got != want {
			t.Errorf("8s are usual, after %v: %v, want %v", took, got, want)
		}
	}
}
