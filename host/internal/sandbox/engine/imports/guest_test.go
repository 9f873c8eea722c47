package imports_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/imports"
)

// hostFunc answers host calls with a function.
type hostFunc func(ctx context.Context, name string, request []byte) (abi.Code, []byte)

func (f hostFunc) HostCall(ctx context.Context, name string, request []byte) (abi.Code, []byte) {
	return f(ctx, name, request)
}

// hostCall calls the import of that name with a request of so many bytes.
func hostCall(ctx context.Context, call *imports.Call, guestMemory memory, name string, size int) (abi.Code, int, error) {
	for _, f := range imports.Functions() {
		if f.Module == abi.ImportModule && f.Name == name {
			stack := []uint64{0, uint64(size), 0}
			err := f.Run(ctx, call, guestMemory, stack)
			return abi.Code(stack[0] >> 32), int(uint32(stack[0])), err
		}
	}
	panic("no import " + name)
}

// A request over the limit of its host call is answered before a copy of it is
// made, and never reaches the host.
func TestLargeRequestsAreRefusedBeforeTheyAreCopied(t *testing.T) {
	guest := imports.NewGuest(engine.ModuleConfig{Host: hostFunc(func(_ context.Context, name string, request []byte) (abi.Code, []byte) {
		if len(request) > abi.MaxRequestOf(name) {
			t.Errorf("the host was asked %s with %d bytes", name, len(request))
		}
		return abi.CodeOK, nil
	})})
	m := memory{make([]byte, abi.MaxHostCallBytes)}
	var call imports.Call
	call.Op(guest, nil)
	for _, name := range append(abi.Capabilities(), abi.ImportLog) {
		most := abi.MaxRequestOf(name)
		if code, _, err := hostCall(t.Context(), &call, m, name, most); code != abi.CodeOK || err != nil {
			t.Errorf("%s of %d bytes: %v, %v", name, most, code, err)
		}
		if most == abi.MaxHostCallBytes {
			continue
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		code, _, err := hostCall(t.Context(), &call, m, name, abi.MaxHostCallBytes)
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; code != abi.CodeTooLarge || err != nil || taken > 256<<10 {
			t.Errorf("%s of 8 MiB: %v, %v, and %d bytes are allocated", name, code, err, taken)
		}
	}
}

// All instances of a module together hold one large request and one large
// result at most; who waits is ended when its time is over, and holds nothing.
func TestLargeRequestsAndResultsTakeTurns(t *testing.T) {
	var inside, most atomic.Int64
	result := make([]byte, abi.MaxHostResultBytes)
	entered, leave := make(chan struct{}, 8), make(chan struct{})
	guest := imports.NewGuest(engine.ModuleConfig{Host: hostFunc(func(_ context.Context, name string, _ []byte) (abi.Code, []byte) {
		if name == abi.CapabilityNodes {
			return abi.CodeOK, result
		}
		most.Store(max(most.Load(), inside.Add(1)))
		entered <- struct{}{}
		<-leave
		inside.Add(-1)
		return abi.CodeOK, nil
	})})
	m := memory{make([]byte, abi.MaxHostCallBytes)}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()

	var first, second imports.Call
	first.Op(guest, nil)
	second.Op(guest, nil)
	done := make(chan error)
	go func() {
		_, _, err := hostCall(t.Context(), &first, m, abi.CapabilityHTTP, abi.MaxHostCallBytes)
		done <- err
	}()
	<-entered
	_, _, err := hostCall(short, &second, m, abi.CapabilityHTTP, abi.MaxHostCallBytes)
	if !errors.Is(err, context.DeadlineExceeded) || most.Load() != 1 {
		t.Errorf("a second large request: %v, %d at once", err, most.Load())
	}
	close(leave)
	if err := <-done; err != nil {
		t.Error(err)
	}

	second.Op(guest, nil)
	if code, n, err := hostCall(t.Context(), &first, m, abi.CapabilityNodes, 1); code != abi.CodeOK || n != len(result) || err != nil {
		t.Fatalf("%v, %d bytes, %v", code, n, err)
	}
	short, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := hostCall(short, &second, m, abi.CapabilityNodes, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second large result while one is kept: %v", err)
	}
	// A host call, and the end of an op, give back what the result took.
	for range 3 {
		if _, _, err := hostCall(t.Context(), &first, m, abi.CapabilityNodes, 1); err != nil {
			t.Error(err)
		}
	}
	first.End()
	if _, _, err := hostCall(t.Context(), &second, m, abi.CapabilityNodes, 1); err != nil {
		t.Error(err)
	}
	second.End()
}

// A result that is too large is an answer that says so.
func TestResultOverTheLimit(t *testing.T) {
	guest := imports.NewGuest(engine.ModuleConfig{Host: hostFunc(func(context.Context, string, []byte) (abi.Code, []byte) {
		return abi.CodeOK, make([]byte, abi.MaxHostResultBytes+1)
	})})
	var call imports.Call
	call.Op(guest, nil)
	code, n, err := hostCall(t.Context(), &call, memory{make([]byte, 8)}, abi.CapabilityStore, 8)
	if code != abi.CodeTooLarge || n == 0 || n > 200 || err != nil {
		t.Errorf("%v, %d bytes, %v", code, n, err)
	}
	_, _, err = hostCall(t.Context(), &call, memory{make([]byte, abi.MaxHostCallBytes+1)}, abi.CapabilityStore, abi.MaxHostCallBytes+1)
	if err == nil || !strings.Contains(err.Error(), "at most 8388608 are allowed") {
		t.Errorf("a request over every limit: %v", err)
	}
}
