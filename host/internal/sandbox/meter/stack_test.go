package meter_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
)

// TestDeepestStackIsSmall runs into the default depth with frames of every
// width, and looks at what the process has asked of the system for it.
func TestDeepestStackIsSmall(t *testing.T) {
	for _, locals := range []int{0, 100, 1000, 4000} {
		metered, err := meter.Rewrite(recursionWithLiveLocals(locals), options)
		if err != nil {
			t.Fatal(err)
		}
		f := instantiate(t, wazero.NewRuntimeConfigCompiler(), metered).ExportedFunction("f")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := f.Call(t.Context(), 1<<30); !errors.Is(err, errCallDepth) {
			t.Errorf("%d locals: error %.100v, want %v", locals, err, errCallDepth)
		}
		runtime.ReadMemStats(&after)
		// The engine doubles its stack, and copies the old one.
		const most = 32 << 20
		if used := after.TotalAlloc - before.TotalAlloc; used > most {
			t.Errorf("%d locals: the stack took %d MiB in all, want at most %d", locals, used>>20, most>>20)
		} else {
			t.Logf("%d locals: %d MiB", locals, used>>20)
		}
	}
}

// recursionWithLiveLocals is f(n): sets all locals, calls f(n-1), and then adds
// all locals up, so that each of them is kept over the call.
func recursionWithLiveLocals(locals int) []byte {
	body := append(leb(1), append(leb(locals), 0x7e)...)
	for i := range locals {
		body = append(append(append(body, 0x20, 0, 0xad, 0x42), leb(i%64)...), 0x7c, 0x21)
		body = append(body, leb(i+1)...)
	}
	body = append(body, 0x20, 0, 0x41, 1, 0x6b, 0x10, 0)
	for i := range locals {
		body = append(append(append(body, 0x20), leb(i+1)...), 0xa7, 0x24, 0) // to a global
	}
	body = append(body, 0x0b)
	code := append(leb(1), append(leb(len(body)), body...)...)
	wasm := []byte("\x00asm\x01\x00\x00\x00\x01\x05\x01\x60\x01\x7f\x00\x03\x02\x01\x00\x06\x06\x01\x7f\x01\x41\x00\x0b\x07\x05\x01\x01f\x00\x00\x0a")
	return append(append(wasm, leb(len(code))...), code...)
}
