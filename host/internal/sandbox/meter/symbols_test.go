package meter_test

import (
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// TestSymbols: the functions of the metered module are found by their names,
// or by their numbers in the module.
func TestSymbols(t *testing.T) {
	// One import of type () -> (), and two functions, of which the last has a name.
	wasm := append(wasmbin.Header(), "\x01\x04\x01\x60\x00\x00\x02\x07\x01\x01a\x01b\x00\x00\x03\x03\x02\x00\x00\x0a\x07\x02\x02\x00\x0b\x02\x00\x0b"...)
	named := append(append([]byte{}, wasm...), "\x00\x0d\x04name\x01\x06\x01\x02\x03two"...)
	damaged := append(append([]byte{}, wasm...), "\x00\x0d\x04name\x01\x06\x01\x07\x03two"...)
	for name, c := range map[string]struct {
		wasm []byte
		want string // of function 3 of the metered module
		err  bool
	}{
		"named": {named, "two", false}, "without": {wasm, "function 2", false}, "damaged": {damaged, "function 2", true},
	} {
		module, err := wasmbin.Parse(c.wasm)
		if err != nil {
			t.Fatal(err)
		}
		symbols, err := meter.ReadSymbols(module)
		if (err != nil) != c.err {
			t.Errorf("%s: %v", name, err)
		}
		// The import, the refuel function, the two, the meter's own, nothing.
		for i, want := range []string{"", "", "function 1", c.want, "", ""} {
			if got := symbols.Name(uint32(i)); got != want {
				t.Errorf("%s: function %d is %q, want %q", name, i, got, want)
			}
		}
	}
}
