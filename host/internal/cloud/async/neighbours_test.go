package async

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/test/requests"
)

// neighbours is a Next whose ops take so long: questions about Nodes 20 ms, and those
// of an object whose name begins with "hang" their whole time.
func neighbours(timeout, takes time.Duration) *fakeNext {
	next := &fakeNext{}
	next.invoke = func(ctx context.Context, op abi.Op, req, _ abi.Message) error {
		var name string
		takes := takes
		switch r := req.(type) {
		case *abi.LoadBalancerRequest:
			name = r.Service.Name
		case *abi.InstanceRequest:
			name, takes = r.Node.Name, 20*time.Millisecond
		}
		if strings.HasPrefix(name, "hang") {
			takes = timeout
		}
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return ctx.Err()
		}
		if takes == timeout {
			return errors.New("the provider did not answer")
		}
		return nil
	}
	next.fresh = next.invoke
	return next
}

func aboutNode(name string) (context.Context, *abi.InstanceRequest) {
	ctx := opcontext.NewContext(context.Background(), opcontext.Op{Object: &corev1.ObjectReference{Kind: "Node", Name: name}})
	return ctx, requests.Instance(name)
}

// asked is how long a question about a Node, and its confirmation, waited.
func asked(t *testing.T, i *Invoker) time.Duration {
	t.Helper()
	began := time.Now()
	for _, ask := range []func(context.Context, abi.Op, abi.Message, abi.Message) error{i.Invoke, i.InvokeFresh} {
		ctx, req := aboutNode("node")
		if err := ask(ctx, abi.OpInstanceExists, req, &abi.InstanceExistsResponse{}); err != nil {
			t.Error(err)
		}
	}
	return time.Since(began)
}

// Services that wait for their ends do not hold all instances of a slow cloud: the
// loop of Nodes waits for an instance 10 s at most.
func TestNodesAreAskedBesideSlowServices(t *testing.T) {
	for _, instances := range []int{1, 2, 8} {
		for _, takes := range []time.Duration{3 * time.Second, 9 * time.Second, 25 * time.Second} {
			if instances == 1 && takes > defaultQueueTimeout {
				continue // who has one instance waits for it
			}
			within(t, neighbours(30*time.Second, takes), Options{Instances: func() int { return instances }}, func(t *testing.T, i *Invoker, _ *observed) {
				var services sync.WaitGroup
				for n := range 60 {
					services.Go(func() { _ = patiently(i, abi.OpLoadBalancerEnsure, fmt.Sprint("web-", n)) })
				}
				synctest.Wait()
				for range 10 {
					if took := asked(t, i); took > time.Second && instances > 1 {
						t.Errorf("%d instances, ops of %v: a Node waited for %v", instances, takes, took)
					}
					time.Sleep(time.Second)
				}
				services.Wait()
			})
		}
	}
}

// Ops that hang when nothing is known of their kind take no more from others, however
// much time the administrator gives to each.
func TestHangsOfAKindThatIsNotKnown(t *testing.T) {
	const timeout = 10 * time.Minute
	within(t, neighbours(timeout, 20*time.Millisecond), Options{OpTimeout: timeout}, func(t *testing.T, i *Invoker, o *observed) {
		var all sync.WaitGroup
		hang := func(op abi.Op, name string) {
			for n := range 50 {
				all.Go(func() { _ = patiently(i, op, fmt.Sprint("hang-", name, n)) })
			}
			synctest.Wait()
		}
		healthy := func(what string, most time.Duration) {
			t.Helper()
			began := time.Now()
			for n := range 5 {
				if err := patiently(i, abi.OpLoadBalancerEnsure, fmt.Sprint("web-", n)); err != nil {
					t.Error(err)
				}
			}
			if took := time.Since(began); took > most {
				t.Errorf("%s: healthy ones took %v", what, took)
			}
		}
		for n := range 5 { // they leave room for one that teaches
			all.Go(func() { _ = patiently(i, abi.OpLoadBalancerEnsure, fmt.Sprint("hang-first", n)) })
		}
		synctest.Wait()
		healthy("5 hang at the start", time.Second)
		hang(abi.OpLoadBalancerEnsure, "ensure")
		healthy("50 ensures hang", 10*time.Second)
		hang(abi.OpLoadBalancerGet, "get")
		healthy("50 questions hang", 10*time.Second)
		hang(abi.OpLoadBalancerDelete, "delete")
		healthy("50 deletions hang", 10*time.Second)
		if took := asked(t, i); took > time.Second {
			t.Errorf("a Node waited for %v", took)
		}
		all.Wait()
		if o.most > 4 {
			t.Errorf("%d in the background", o.most)
		}
	})
}

// When all hang at the start, the loop of Nodes has instances.
func TestNodesAreAskedWhenAllServicesHangAtTheStart(t *testing.T) {
	const timeout = 10 * time.Minute
	within(t, neighbours(timeout, time.Second), Options{OpTimeout: timeout}, func(t *testing.T, i *Invoker, _ *observed) {
		var all sync.WaitGroup
		for n := range 16 {
			all.Go(func() { _ = patiently(i, abi.OpLoadBalancerEnsure, fmt.Sprint("hang-", n)) })
		}
		synctest.Wait()
		if took := asked(t, i); took > time.Second {
			t.Errorf("a Node waited for %v", took)
		}
		began := time.Now()
		for patiently(i, abi.OpLoadBalancerEnsure, "web") != nil {
			time.Sleep(5 * time.Second)
		}
		if took := time.Since(began); took > 5*time.Minute {
			t.Errorf("behind 16 that hang a Service waited for %v", took)
		}
		all.Wait()
	})
}

// What others have taught holds for a question that is under way, too.
func TestANodeThatHangsFirstIsLeft(t *testing.T) {
	const timeout = 10 * time.Minute
	within(t, neighbours(timeout, 0), Options{OpTimeout: timeout}, func(t *testing.T, i *Invoker, _ *observed) {
		began := time.Now()
		var pass sync.WaitGroup
		for _, name := range []string{"hang", "1", "2"} {
			ctx, req := aboutNode(name)
			pass.Go(func() {
				_ = i.Invoke(opcontext.InPass(ctx), abi.OpInstanceMetadata, req, &abi.InstanceMetadataResponse{})
			})
		}
		pass.Wait()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("one Node that hangs holds the pass for %v", took)
		}
	})
}

// Whoever was told to stop begins nothing, also when its turn came at that moment.
func TestNothingBeginsForOneWhoHasGone(t *testing.T) {
	next, calls := taking(always(time.Second))
	within(t, next, Options{Instances: func() int { return 1 }}, func(t *testing.T, i *Invoker, _ *observed) {
		go func() { _ = patiently(i, abi.OpLoadBalancerEnsure, "web") }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(opcontext.WithPatience(about("other")))
		ended := make(chan error, 1)
		go func() {
			ended <- i.Invoke(ctx, abi.OpLoadBalancerEnsure, request("other"), &abi.LoadBalancerEnsureResponse{})
		}()
		synctest.Wait()
		i.mu.Lock() // the other has its turn, and does not know it yet
		place := i.rooms.queue[0]
		i.rooms.queue, place.permit = nil, true
		i.rooms.total++
		i.rooms.running[place.group()]++
		i.rooms.long, place.long = i.rooms.long+1, true
		close(place.turn)
		place.turn = nil
		cancel()
		i.mu.Unlock()
		if err := <-ended; !errors.Is(err, context.Canceled) || calls.Load() != 1 {
			t.Errorf("%v, %d calls", err, calls.Load())
		}
		time.Sleep(time.Second)
	})
}

// Who waits for its turn hears at once that there will be none.
func TestADrainLetsWaitersGo(t *testing.T) {
	next := neighbours(10*time.Minute, 9*time.Minute)
	within(t, next, Options{OpTimeout: 10 * time.Minute, Instances: func() int { return 1 }}, func(t *testing.T, i *Invoker, _ *observed) {
		var group sync.WaitGroup
		for n := range 10 {
			group.Go(func() { _ = patiently(i, abi.OpLoadBalancerEnsure, fmt.Sprint("web-", n)) })
		}
		var waiting sync.WaitGroup
		synctest.Wait()
		for n := range 10 {
			waiting.Go(func() { _ = patiently(i, abi.OpLoadBalancerEnsure, fmt.Sprint("late-", n)) })
			waiting.Go(func() { _ = patiently(i, abi.OpLoadBalancerGet, "late-0") })
		}
		synctest.Wait()
		began := time.Now()
		go func() { _ = i.Drain(context.Background()) }()
		waiting.Wait()
		if d := time.Since(began); d > time.Second {
			t.Errorf("who waits for its turn waits for %v after the drain", d)
		}
		group.Wait()
	})
}

// An op that ends when its caller's patience does has no place in the background: it
// would have it for ever.
func TestWhatHasEndedHasNoPlaceInTheBackground(t *testing.T) {
	next, _ := taking(always(7 * time.Second))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		i.learn(abi.OpLoadBalancerEnsure, 3*time.Second)
		go func() { _ = patiently(i, abi.OpLoadBalancerEnsure, "web") }()
		synctest.Wait()
		i.mu.Lock()
		task := i.objects["Service default/web"].running
		i.mu.Unlock()
		time.Sleep(8 * time.Second)
		i.mu.Lock()
		i.usual[abi.OpLoadBalancerEnsure] = &durations{n: 1}
		i.mu.Unlock()
		if r, left := i.giveUp(task, false); r == nil || left != 0 {
			t.Errorf("it is waited for: %v", left)
		}
	})
}
