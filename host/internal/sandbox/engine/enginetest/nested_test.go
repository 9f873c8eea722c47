package enginetest

import (
	"context"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
)

// reentry calls the instance from within its own host call, and closes it there; both are
// refused and the op goes on.
func (s *suite) reentry(t *testing.T) {
	var i engine.Instance
	var again, closing error
	i = instantiate(t, s.compile(t, arguments(t), engine.ModuleConfig{Host: host(
		func(ctx context.Context, _ string, _ []byte) (abi.Code, []byte) {
			_, again = i.Call(ctx, opGrowAfter, nil)
			closing = i.Close(ctx)
			return abi.CodeOK, []byte("still here")
		})}))
	got, err := i.Call(t.Context(), opGrowAfter, []byte("once"))
	if err != nil || string(got.Response) != "still here" {
		t.Errorf("answer %q, error %v", got.Response, err)
	}
	if again == nil || !strings.Contains(again.Error(), "one at a time") {
		t.Errorf("the op within the op: %v", again)
	}
	if closing == nil {
		t.Error("the instance was closed while an op ran")
	}
}

// nested runs a guest that exhausts its stack within a host call of a guest deep in its own,
// as a signer within a provider.
func (s *suite) nested(t *testing.T) {
	inner := s.compile(t, arguments(t), engine.ModuleConfig{})
	answers := 0
	outer := s.compile(t, arguments(t), engine.ModuleConfig{Host: host(
		func(ctx context.Context, _ string, _ []byte) (abi.Code, []byte) {
			if _, err := instantiate(t, inner).Call(ctx, opDeep, words(1<<31)); err == nil || !strings.Contains(err.Error(), "stack overflow") {
				t.Errorf("the inner guest: %v", err)
			}
			answers++
			return abi.CodeOK, nil
		})})
	const deep = 10_000
	if _, err := instantiate(t, outer).Call(t.Context(), opDeep, words(deep)); err != nil || answers != 1 {
		t.Errorf("a guest of %d levels: %v, %d answers", deep, err, answers)
	}
	if _, err := instantiate(t, outer).Call(t.Context(), opDeep, words(1<<31)); err == nil || !strings.Contains(err.Error(), "stack overflow") {
		t.Errorf("the outer guest: %v", err)
	}
}

// depth reaches the meter's bound before an engine's own stack ends.
func (s *suite) depth(t *testing.T) {
	if engine.FuelCallDepth != meter.FuelCallDepth {
		t.Fatalf("the engine knows %d, the meter says %d", int64(engine.FuelCallDepth), int64(meter.FuelCallDepth))
	}
	wasm, err := meter.Rewrite(argumentsWasm, meter.Options{
		ImportModule: engine.RefuelModule, ImportName: engine.RefuelName,
		MaxMemoryPages: 1, MaxTableElements: 4, MaxStackBytes: 100 * 128,
	})
	if err != nil {
		t.Fatal(err)
	}
	m := s.compile(t, wasm, engine.ModuleConfig{})
	if _, err := instantiate(t, m).Call(t.Context(), opDeep, words(50)); err != nil {
		t.Errorf("50 levels of 100: %v", err)
	}
	_, err = instantiate(t, m).Call(t.Context(), opDeep, words(200))
	if want := "the guest trapped: wasm error: stack overflow: its calls nest deeper than is allowed"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

func (s *suite) closed(t *testing.T) {
	m := s.compile(t, arguments(t), engine.ModuleConfig{})
	i, err := m.Instantiate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := i.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := i.Call(t.Context(), opLoop, words(1)); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("a closed instance answers: %v", err)
	}
	if bytes := i.MemoryBytes(); bytes != 0 {
		t.Errorf("a closed instance has %d bytes", bytes)
	}
}

// leaks makes many instances of many modules, some of which fail, and then measures the
// process's memory.
func (s *suite) leaks(t *testing.T) {
	wasm := arguments(t)
	round := func(instances int) {
		m := s.compileAlone(t, wasm)
		for n := range instances {
			i, err := m.Instantiate(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := i.Call(t.Context(), opTrapHow, words(uint32(n%10))); err == nil {
				t.Fatal("the guest did not trap")
			}
			if err := i.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	round(200)
	goroutines, before := runtime.NumGoroutine(), residentBytes(t)
	for range 10 {
		round(200)
	}
	const allowed = 24 << 20
	if after := residentBytes(t); after > before+allowed {
		t.Errorf("2000 instances of 10 modules: %d MiB became %d MiB", before>>20, after>>20)
	}
	if now := runtime.NumGoroutine(); now > goroutines {
		t.Errorf("%d goroutines became %d", goroutines, now)
	}
}

func (s *suite) compileAlone(t *testing.T, wasm []byte) engine.Module {
	t.Helper()
	m, err := s.newEngine().Compile(t.Context(), wasm, engine.ModuleConfig{MemoryLimitBytes: memoryLimit, Host: host(noHost)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// residentBytes is the process's memory, Go's and other, after finalizers have run.
func residentBytes(t *testing.T) uint64 {
	t.Helper()
	for range 3 {
		debug.FreeOSMemory()
		runtime.Gosched()
	}
	return resident(t)
}
