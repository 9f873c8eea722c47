package async

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// A provider that fails slowly is replaced by one that works. How its last op
// ended, nobody has come for yet: it must not be told as the answer of the new one.
func TestAFailureOfTheGenerationBeforeIsNotHandedOut(t *testing.T) {
	for name, replaced := range map[string]time.Duration{"after its end": 4 * time.Second, "before its end": time.Second} {
		t.Run(name, func(t *testing.T) {
			var mended atomic.Bool
			next := &fakeNext{invoke: func(_ context.Context, _ abi.Op, _, resp abi.Message) error {
				if mended.Load() {
					resp.(*abi.LoadBalancerEnsureResponse).Status = &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{{Ip: "192.0.2.1"}}}
					return nil
				}
				time.Sleep(3 * time.Second)
				return &abi.Error{Code: abi.CodeInternal, Message: "a bug of the generation before"}
			}}
			within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
				_, err := ensure(i, "web")
				retry(t, err)
				time.Sleep(replaced)
				mended.Store(true)
				i.Reset()
				time.Sleep(5 * time.Second)
				if ip, err := ensure(i, "web"); err != nil || ip != "192.0.2.1" {
					t.Errorf("after the replacement: %q, %v", ip, err)
				}
			})
		})
	}
}

// replaced makes a Next that hangs until mended, and then answers at once.
func replaced() (next *fakeNext, calls *atomic.Int32, mend func()) {
	next, calls = &fakeNext{}, &atomic.Int32{}
	var mended atomic.Bool
	next.invoke = func(ctx context.Context, _ abi.Op, _, resp abi.Message) error {
		calls.Add(1)
		if mended.Load() {
			if r, ok := resp.(*abi.LoadBalancerEnsureResponse); ok {
				r.Status = &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{{Ip: "192.0.2.1"}}}
			}
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second) // as plugin.Slot
		defer cancel()
		<-ctx.Done()
		return fmt.Errorf("the provider did not answer: %w", context.Cause(ctx))
	}
	return next, calls, func() { mended.Store(true) }
}

// A question that hangs in the generation before holds up nobody who asks the new
// one, whether it is in the background by then or not yet.
func TestAQuestionToTheGenerationBeforeIsEnded(t *testing.T) {
	for name, after := range map[string]time.Duration{"in the background": 20 * time.Second, "in the foreground": 50 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			next, calls, mend := replaced()
			within(t, next, Options{}, func(t *testing.T, i *Invoker, o *observed) {
				go func() { _ = invoke(i, abi.OpLoadBalancerGet, "web") }()
				time.Sleep(after)
				mend()
				i.Reset()
				time.Sleep(time.Second)
				if err := invoke(i, abi.OpLoadBalancerGet, "web"); err != nil || calls.Load() != 2 {
					t.Errorf("a second after the takeover: %v, after %d questions", err, calls.Load())
				}
				if len(o.unanswered) > 0 {
					t.Errorf("told of what was ended on purpose: %v", o.unanswered)
				}
			})
		})
	}
}

// A change goes on to its end. That it fails is not held against the new generation,
// nor is what failed before it.
func TestAChangeOfTheGenerationBeforeFailsForItAlone(t *testing.T) {
	next, _, mend := replaced()
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		_, err := ensure(i, "web")
		retry(t, err)
		time.Sleep(31 * time.Second)
		_, _ = ensure(i, "web") // how it failed
		_, err = ensure(i, "web")
		if !strings.Contains(err.Error(), "it failed 1 times in a row before") {
			t.Errorf("under the generation that failed: %v", err)
		}
		synctest.Wait() // it has begun
		mend()
		i.Reset()
		if _, err = ensure(i, "web"); strings.Contains(err.Error(), "failed") {
			t.Errorf("the new generation is told of with %v", err)
		}
		time.Sleep(31 * time.Second)
		if _, failing := i.Look(abi.GroupLoadBalancers, "default/web"); failing != nil {
			t.Errorf("the new generation counts %+v", failing)
		}
		if ip, err := ensure(i, "web"); err != nil || ip != "192.0.2.1" {
			t.Errorf("%q, %v", ip, err)
		}
	})
}

// Who asks after a takeover does not share the answer to a question from before it.
func TestAQuestionIsNotSharedAcrossATakeover(t *testing.T) {
	var mended atomic.Bool
	next := &fakeNext{invoke: func(context.Context, abi.Op, abi.Message, abi.Message) error {
		if mended.Load() {
			return nil
		}
		time.Sleep(80 * time.Millisecond)
		return errors.New("unreachable executed")
	}}
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		before := make(chan error, 1)
		go func() { before <- invoke(i, abi.OpLoadBalancerGet, "web") }()
		time.Sleep(40 * time.Millisecond)
		mended.Store(true)
		i.Reset()
		if err := invoke(i, abi.OpLoadBalancerGet, "web"); err != nil {
			t.Errorf("the new generation is told of with %v", err)
		}
		if err := <-before; err == nil {
			t.Error("the one before answered")
		}
	})
}

// Generations that come faster than the cloud answers leave a question its answer.
func TestAQuestionIsAnsweredWhileGenerationsComeAndGo(t *testing.T) {
	next, _ := taking(always(12 * time.Second))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		begun, answer := time.Now(), make(chan error, 1)
		go func() { answer <- patiently(i, abi.OpLoadBalancerGet, "web") }()
		for range 30 {
			time.Sleep(10 * time.Second)
			i.Reset()
			select {
			case err := <-answer:
				if took := time.Since(begun); err != nil || took > time.Minute {
					t.Errorf("%v after %v", err, took)
				}
				return
			default:
			}
		}
		t.Errorf("no answer after %v", time.Since(begun))
	})
}
