package wasmbin_test

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// An outline declares what the module declares, and has none of its code.
func TestOutline(t *testing.T) {
	code := "\x41\x2a\x1a"
	wasm := []byte(string(wasmbin.Header()) +
		section(1, "\x02\x60\x00\x00\x60\x02\x7f\x7e\x01\x7f") +
		section(3, "\x02\x00\x01") +
		section(5, "\x01\x00\x01") +
		section(7, "\x01\x01f\x00\x01") +
		section(10, "\x02"+"\x05\x00"+code+"\x0b"+"\x07\x00"+code+"\x41\x07\x0b") +
		section(11, "\x01\x00\x41\x00\x0b\x02hi"))
	whole, err := wasmbin.Parse(wasm)
	if err != nil {
		t.Fatal(err)
	}
	outline, err := wasmbin.Outline(wasm)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(outline, []byte(code)) {
		t.Error("it has code of the module")
	}
	got, err := wasmbin.Parse(outline)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Bodies) != len(whole.Bodies) {
		t.Errorf("%d bodies, want %d", len(got.Bodies), len(whole.Bodies))
	}
	got.Bodies, whole.Bodies, got.Size, whole.Size = nil, nil, 0, 0
	if !reflect.DeepEqual(got, whole) {
		t.Errorf("it declares %+v, want %+v", got, whole)
	}
}

func TestOutlineOfWhatIsDamaged(t *testing.T) {
	for _, wasm := range []string{"", "\x00asm\x01\x00\x00\x00\x0a", "\x00asm\x01\x00\x00\x00\x0a\x05\xff\xff\xff\xff\x0f", "\x00asm\x01\x00\x00\x00\x0b\x7f"} {
		if _, err := wasmbin.Outline([]byte(wasm)); err == nil {
			t.Errorf("%q has an outline", wasm)
		}
	}
}
