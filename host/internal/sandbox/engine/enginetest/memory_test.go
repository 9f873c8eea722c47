package enginetest

import (
	"slices"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// emptyMemory grows where a module has data and its memory begins with no pages.
func (s *suite) emptyMemory(t *testing.T) {
	for name, data := range map[string]string{
		"no data":                   "",
		"an empty active segment":   "\x0b\x06\x01\x00\x41\x00\x0b\x00",
		"a passive segment":         "\x0b\x04\x01\x01\x01x",
		"both":                      "\x0b\x09\x02\x00\x41\x00\x0b\x00\x01\x01x",
		"a section without segment": "\x0b\x01\x00",
	} {
		wasm := slices.Concat(wasmbin.Header(),
			[]byte("\x01\x0a\x02\x60\x00\x00\x60\x02\x7f\x7f\x01\x7f\x03\x03\x02\x00\x01\x05\x04\x01\x01\x00\x02"),
			[]byte("\x07\x23\x03\x06memory\x02\x00\x0b_initialize\x00\x00\x08ccm_call\x00\x01"),
			[]byte("\x0a\x0b\x02\x02\x00\x0b\x06\x00\x41\x01\x40\x00\x0b"), []byte(data))
		i := instantiate(t, s.compile(t, metered(t, wasm), engine.ModuleConfig{}))
		// It answers with the number of pages before it grows by one.
		for pages, want := range []uint64{0: 1 << 16, 1: 2 << 16} {
			got, err := i.Call(t.Context(), abi.OpProbe, nil)
			if err != nil || int(got.Code) != pages || i.MemoryBytes() != want {
				t.Errorf("%s: with %d pages memory.grow says %d, and there are %d bytes: %v", name, pages, int32(got.Code), i.MemoryBytes(), err)
			}
		}
	}
}
