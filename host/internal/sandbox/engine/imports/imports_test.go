package imports_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/imports"
)

// memory is a guest's, within a larger array whose rest nothing may touch.
type memory struct{ data []byte }

func (m memory) Read(ptr, size uint32) ([]byte, bool) {
	end := uint64(ptr) + uint64(size)
	if end > uint64(len(m.data)) {
		return nil, false
	}
	return m.data[ptr:end:end], true
}

type answers struct{}

func (answers) HostCall(_ context.Context, _ string, request []byte) (abi.Code, []byte) {
	return abi.CodeOK, request
}

// bounded fails when it is given more at once than a write may have.
type bounded struct{ t *testing.T }

func (b bounded) Write(p []byte) (int, error) {
	if len(p) > 64<<10 {
		b.t.Errorf("%d bytes were written at once", len(p))
	}
	return len(p), nil
}

// FuzzImports calls every import with arguments and a memory of the guest's
// choice: it returns or ends the guest, and never fails itself.
func FuzzImports(f *testing.F) {
	all := imports.Functions()
	u32 := func(words ...uint32) (b []byte) {
		for _, word := range words {
			b = binary.LittleEndian.AppendUint32(b, word)
		}
		return b
	}
	for n := range all {
		f.Add(uint8(n), u32(0, 0, 8, 64, 1, 1, 1, 1, 1), bytes.Repeat([]byte{1, 0, 0, 0}, 64))
		f.Add(uint8(n), u32(1, 0xffffffff, 0xffffffff, 0x80000000, 0, 0, 0, 0, 0), make([]byte, 256))
	}
	f.Fuzz(func(t *testing.T, which uint8, args, data []byte) {
		function := all[int(which)%len(all)]
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // no sleep is waited for
		out := bounded{t}
		guest := imports.NewGuest(engine.ModuleConfig{Host: answers{}, Stdout: out, Stderr: out})
		for _, inOp := range []bool{false, true} {
			var call imports.Call
			call.Outside(guest)
			if inOp {
				call.Op(guest, data)
			}
			var stack [9]uint64
			for i := range stack {
				if len(args) >= 4*(i+1) {
					stack[i] = uint64(binary.LittleEndian.Uint32(args[4*i:]))
				}
			}
			checkRun(ctx, t, function, &call, data, stack[:])
		}
	})
}

func checkRun(ctx context.Context, t *testing.T, function imports.Function, call *imports.Call, data []byte, stack []uint64) {
	t.Helper()
	const rest = 64
	array := append(bytes.Clone(data), make([]byte, rest)...)
	err := function.Run(ctx, call, memory{array[:len(data)]}, stack)
	var end *imports.End
	switch {
	case err != nil && !errors.As(err, &end):
		t.Errorf("%s ends the guest with %T", function.Name, err)
	case err != nil && strings.Contains(err.Error(), "the host failed"):
		t.Errorf("%s: %v", function.Name, err)
	}
	if !bytes.Equal(array[len(data):], make([]byte, rest)) {
		t.Errorf("%s wrote behind the memory", function.Name)
	}
}

// The stack has room for the most parameters there are.
func TestMostParameters(t *testing.T) {
	for _, f := range imports.Functions() {
		if len(f.Params) > imports.MaxParams || len(f.Results) > 1 {
			t.Errorf("%s.%s takes %d and returns %d", f.Module, f.Name, len(f.Params), len(f.Results))
		}
	}
}

// Of many that want to run an op or to close, one at a time does.
func TestGate(t *testing.T) {
	var gate imports.Gate
	var inside, ops, closed atomic.Int32
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for range 1000 {
				if gate.Enter(0) != nil {
					continue
				}
				if inside.Add(1) != 1 {
					t.Error("two ops at once")
				}
				ops.Add(1)
				inside.Add(-1)
				gate.Leave(false)
			}
			if n != 0 {
				return
			}
			for {
				first, err := gate.Close()
				if first {
					closed.Add(1)
				}
				if err == nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if ops.Load() == 0 || closed.Load() != 1 || !gate.Closed() {
		t.Errorf("%d ops, closed %d times", ops.Load(), closed.Load())
	}
	if err := gate.Enter(0); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("a closed gate: %v", err)
	}
	if first, err := gate.Close(); first || err != nil {
		t.Errorf("closing once more: %t, %v", first, err)
	}
}

func TestGateAfterFailure(t *testing.T) {
	var gate imports.Gate
	if err := gate.Enter(abi.MaxRequestBytes + 1); err == nil {
		t.Error("a request that is too large enters")
	}
	if err := gate.Enter(abi.MaxRequestBytes); err != nil {
		t.Fatal(err)
	}
	gate.Leave(true)
	if err := gate.Enter(0); err == nil || !strings.Contains(err.Error(), "failed before") {
		t.Errorf("after a failure: %v", err)
	}
	if first, err := gate.Close(); !first || err != nil {
		t.Errorf("closing after a failure: %t, %v", first, err)
	}
}
