package async

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/test/requests"
)

type fakeNext struct {
	invoke func(ctx context.Context, op abi.Op, req, resp abi.Message) error
	fresh  func(ctx context.Context, op abi.Op, req, resp abi.Message) error
}

func (f *fakeNext) Invoke(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return f.invoke(ctx, op, req, resp)
}
func (f *fakeNext) InvokeFresh(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return f.fresh(ctx, op, req, resp)
}
func (*fakeNext) Supports(abi.Op) bool { return true }
func (*fakeNext) ProviderName() string { return "fake" }
func (*fakeNext) HasClusterID() bool   { return true }

// observed counts what an observer hears.
type observed struct {
	mu         sync.Mutex
	background int
	most       int
	done       int
	busy       int
	dropped    map[string]int
	backedOff  []string
	unanswered []string
}

func (o *observed) Background(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.background, o.most = n, max(o.most, n)
}
func (o *observed) BackgroundDone(abi.Op, time.Duration, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.done++
}
func (o *observed) ResultDropped(_ abi.Op, reason string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dropped == nil {
		o.dropped = map[string]int{}
	}
	o.dropped[reason]++
}
func (o *observed) Busy(abi.Op) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy++
}
func (o *observed) Unanswered(object *corev1.ObjectReference, op abi.Op, took time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unanswered = append(o.unanswered, fmt.Sprintf("%s %s %v %v", object.Name, op, took, err))
}
func (o *observed) BackedOff(object *corev1.ObjectReference, op abi.Op, failures int, delay time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.backedOff = append(o.backedOff, fmt.Sprintf("%s %s %d %v %v", object.Name, op, failures, delay, err))
}

// about is the context of an op on a Service.
func about(service string, nodes ...*corev1.Node) context.Context {
	return opcontext.NewContext(context.Background(), opcontext.Op{
		Object: &corev1.ObjectReference{Kind: "Service", Namespace: "default", Name: service},
		Nodes:  nodes, Serial: "Service default/" + service,
	})
}

func request(service string) *abi.LoadBalancerRequest {
	return requests.LoadBalancer("default", service)
}

func ensure(i *Invoker, service string) (string, error) {
	return ensureIn(about(service), i, request(service))
}

func ensureIn(ctx context.Context, i *Invoker, req *abi.LoadBalancerRequest) (string, error) {
	var resp abi.LoadBalancerEnsureResponse
	if err := i.Invoke(ctx, abi.OpLoadBalancerEnsure, req, &resp); err != nil {
		return "", err
	}
	return resp.Status.Ingress[0].Ip, nil
}

func invoke(i *Invoker, op abi.Op, service string) error {
	if op == abi.OpLoadBalancerGet {
		return i.Invoke(about(service), op, request(service), &abi.LoadBalancerGetResponse{})
	}
	return i.Invoke(about(service), op, request(service), &abi.Done{})
}

// taking makes a Next whose ops take as long as latency says and answer the IP
// 192.0.2.N, N being the number of the op; a negative latency hangs.
func taking(latency func(op abi.Op, service string) time.Duration) (*fakeNext, *atomic.Int32) {
	var calls atomic.Int32
	next := &fakeNext{}
	next.invoke = func(ctx context.Context, op abi.Op, req, resp abi.Message) error {
		n := calls.Add(1)
		var d time.Duration
		if r, ok := req.(*abi.LoadBalancerRequest); ok {
			d = latency(op, r.Service.Name)
		} else {
			d = latency(op, "")
		}
		if d < 0 {
			d = time.Hour
			deadline, cancel := context.WithTimeout(ctx, 30*time.Second) // as plugin.Slot
			defer cancel()
			ctx = deadline
		}
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return fmt.Errorf("the provider did not answer: %w", ctx.Err())
		}
		if r, ok := resp.(*abi.LoadBalancerEnsureResponse); ok {
			r.Status = &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{{Ip: fmt.Sprintf("192.0.2.%d", n)}}}
		}
		return nil
	}
	next.fresh = next.invoke
	return next, &calls
}

func always(d time.Duration) func(abi.Op, string) time.Duration {
	return func(abi.Op, string) time.Duration { return d }
}

// retry returns when an error wants the op to be asked again.
func retry(t *testing.T, err error) time.Duration {
	t.Helper()
	var answer *abi.Error
	if !errors.As(err, &answer) || answer.Code != abi.CodeRetryAfter || answer.RetryAfter < time.Second {
		t.Fatalf("got %v, want one that says when to ask again", err)
	}
	return answer.RetryAfter
}

// within runs a test in a bubble of fake time and ends the invoker in it.
func within(t *testing.T, next opcontext.Invoker, options Options, test func(*testing.T, *Invoker, *observed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &observed{}
		options.Observer = o
		i := New(next, options)
		test(t, i, o)
		if err := i.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if i.rooms.total != 0 || i.rooms.background != 0 || len(i.rooms.queue) != 0 || len(i.tasks) != 0 {
			t.Errorf("left behind: %d ops, %d in the background, %d in the queue", i.rooms.total, i.rooms.background, len(i.rooms.queue))
		}
		if o.background != 0 {
			t.Errorf("the observer believes that %d are in the background", o.background)
		}
	})
}
