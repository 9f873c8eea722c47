package plugin_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// onExists makes a fake whose instance_exists does f first.
func onExists(f func(ctx context.Context) error) *fakeEngine {
	return &fakeEngine{call: func(ctx context.Context, op abi.Op, _ []byte) (engine.Result, error) {
		if op == abi.OpInstanceExists {
			return engine.Result{}, f(ctx)
		}
		return engine.Result{}, nil
	}}
}

func TestInstancesAreUsedAgain(t *testing.T) {
	slot, c := serve(t, &fakeEngine{}, testLimits())
	before := c.created.Load()
	for range 100 {
		if err := exists(t.Context(), slot); err != nil {
			t.Fatal(err)
		}
	}
	if made := c.created.Load() - before; made != 0 {
		t.Errorf("%d instances were made for calls one after the other; the probe's was there", made)
	}
}

func TestFailedInstancesAreThrownAway(t *testing.T) {
	fail := true
	slot, c := serve(t, onExists(func(context.Context) error {
		if fail {
			return errors.New("trap")
		}
		return nil
	}), testLimits())
	for range 5 {
		if err := exists(t.Context(), slot); err == nil {
			t.Fatal("the trap was swallowed")
		}
	}
	if n := c.count(plugin.DiscardFailed); n != 5 {
		t.Errorf("%d instances were discarded, want 5", n)
	}
	fail = false
	if err := exists(t.Context(), slot); err != nil {
		t.Errorf("after the traps: %v", err)
	}
}

func TestInstancesHaveAQuota(t *testing.T) {
	limits := testLimits()
	limits.MaxCallsPerInstance = 10
	slot, c := serve(t, &fakeEngine{}, limits)
	for range 100 {
		if err := exists(t.Context(), slot); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.count(plugin.DiscardQuota); n != 10 {
		t.Errorf("%d instances were retired, want 10", n)
	}
}

func TestFailingInstantiationHarmsNobody(t *testing.T) {
	e := &fakeEngine{}
	limits := testLimits()
	limits.MaxCallsPerInstance = 1
	slot, _ := serve(t, e, limits)
	e.instantiate = func() error { return errors.New("out of memory") }
	for range 10 {
		if err := exists(t.Context(), slot); err == nil || !strings.Contains(err.Error(), "out of memory") {
			t.Fatalf("error %v", err)
		}
	}
	e.instantiate = nil
	if err := exists(t.Context(), slot); err != nil {
		t.Errorf("after the failures: %v", err)
	}
}

// stuckIn is an engine whose guests do not come back from an op.
func stuckIn(stuck abi.Op) *fakeEngine {
	return &fakeEngine{call: func(ctx context.Context, op abi.Op, _ []byte) (engine.Result, error) {
		if op != stuck {
			return engine.Result{}, nil
		}
		<-ctx.Done()
		return engine.Result{}, ctx.Err()
	}}
}

// The error of an op that is late names what gives it more time, and that of
// loading, which has a time of its own, does not.
func TestLateErrorsNameWhatSetsTheTime(t *testing.T) {
	const setting = "providers[].ops.timeout"
	for _, test := range []struct {
		op              abi.Op
		opTimeout, load time.Duration
		setting, want   string
	}{
		{abi.OpConfigure, time.Minute, 10 * time.Millisecond, setting, "which no setting changes"},
		{abi.OpDescribe, time.Minute, 10 * time.Millisecond, setting, "which no setting changes"},
		{abi.OpProbe, time.Minute, 10 * time.Millisecond, setting, "which no setting changes"},
		{abi.OpProbe, 10 * time.Millisecond, 10 * time.Millisecond, setting, setting},
		{abi.OpConfigure, 10 * time.Millisecond, 10 * time.Millisecond, setting, setting},
		{abi.OpConfigure, 10 * time.Millisecond, 10 * time.Millisecond, "", "which no setting changes"},
	} {
		limits := testLimits()
		limits.OpTimeout, limits.LoadTimeout, limits.TimeoutSetting = test.opTimeout, test.load, test.setting
		l, _ := realLoader(limits)
		l.Engine = stuckIn(test.op)
		_, err := l.Load(t.Context(), plugin.Bundle{Module: realModule(t)})
		if want := "the provider did not answer within 10ms (" + test.want + ")"; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want %q", test.op, err, want)
		}
	}
}

func TestDeadlineNamesItsFlag(t *testing.T) {
	limits := testLimits()
	limits.OpTimeout, limits.TimeoutSetting = 10*time.Millisecond, "providers[].ops.timeout"
	slot, c := serve(t, onExists(func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}), limits)
	err := exists(t.Context(), slot)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "providers[].ops.timeout") {
		t.Errorf("error %v", err)
	}
	if n := c.count(plugin.DiscardDeadline); n != 1 {
		t.Errorf("%d instances were discarded for the deadline", n)
	}
}

func TestPoolIsBoundedAndWaits(t *testing.T) {
	var running, most atomic.Int64
	gate := make(chan struct{})
	slot, _ := serve(t, onExists(func(context.Context) error {
		most.Store(max(most.Load(), running.Add(1)))
		<-gate
		running.Add(-1)
		return nil
	}), testLimits())
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if err := exists(t.Context(), slot); err != nil {
				t.Error(err)
			}
		})
	}
	for running.Load() < 3 {
		time.Sleep(time.Millisecond) // until all three instances are busy
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := exists(ctx, slot); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "3 instances") {
		t.Errorf("an op that cannot wait any longer: %v", err)
	}
	close(gate)
	wg.Wait()
	if most.Load() != 3 {
		t.Errorf("%d instances ran at the same time, the limit is 3", most.Load())
	}
}

// After a burst the instances that no op needs any more give their memory back; the
// last one stays.
func TestUnusedInstancesAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slot, c := serve(t, onExists(func(context.Context) error { time.Sleep(3 * time.Second); return nil }), testLimits())
		var burst sync.WaitGroup
		for range 3 {
			burst.Go(func() {
				if err := exists(t.Context(), slot); err != nil {
					t.Error(err)
				}
			})
		}
		burst.Wait()
		for minute := range 10 {
			if unused := c.count(plugin.DiscardUnused); minute < 5 && unused != 0 {
				t.Errorf("%d instances were closed after %d minutes", unused, minute)
			}
			time.Sleep(time.Minute)
			if err := exists(t.Context(), slot); err != nil {
				t.Fatal(err)
			}
		}
		if unused := c.count(plugin.DiscardUnused); unused != 2 {
			t.Errorf("%d of 3 instances were closed, want 2", unused)
		}
	})
}

// Many callers, many replacements: no call fails, and everything that was
// replaced is freed.
func TestSwapLosesNoCall(t *testing.T) {
	e := &fakeEngine{}
	limits := testLimits()
	slot, c := serve(t, e, limits)
	l, _ := newLoader(e, limits)
	l.Observer = c
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var calls atomic.Int64
	for range 8 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := exists(context.Background(), slot); err != nil {
					t.Errorf("a call was lost: %v", err)
					return
				}
				calls.Add(1)
			}
		})
	}
	var replaced []*plugin.Generation
	for range 200 {
		g, err := l.Load(t.Context(), plugin.Bundle{Module: testModule(t, testManifest)})
		if err != nil {
			t.Fatal(err)
		}
		replaced = append(replaced, slot.Swap(t.Context(), g))
	}
	close(stop)
	wg.Wait()
	for _, g := range replaced {
		<-g.Closed()
	}
	if calls.Load() == 0 {
		t.Error("nothing was called")
	}
	if n := e.modules.Load(); n != 1 {
		t.Errorf("%d modules are open after the replacements, want the one that serves", n)
	}
}

func TestReplacedGenerationEndsItsCalls(t *testing.T) {
	entered, gate := make(chan struct{}), make(chan struct{})
	e := onExists(func(context.Context) error {
		close(entered)
		<-gate
		return nil
	})
	slot, _ := serve(t, e, testLimits())
	result := make(chan error, 1)
	go func() { result <- exists(context.Background(), slot) }()
	<-entered
	l, _ := newLoader(&fakeEngine{}, testLimits())
	g, err := l.Load(t.Context(), plugin.Bundle{Module: testModule(t, testManifest)})
	if err != nil {
		t.Fatal(err)
	}
	old := slot.Swap(t.Context(), g)
	if err := exists(t.Context(), slot); err != nil {
		t.Errorf("a call to the new generation while the old one is busy: %v", err)
	}
	select {
	case <-old.Closed():
		t.Error("the old generation was closed under a call")
	default:
	}
	close(gate)
	if err := <-result; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	<-old.Closed()
}
