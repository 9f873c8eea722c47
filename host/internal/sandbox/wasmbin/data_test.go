package wasmbin_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

const wasmHeader = "\x00asm\x01\x00\x00\x00"

func TestSplitData(t *testing.T) {
	at := func(offset, data string) string { return "\x00\x41" + offset + "\x0b" + string(rune(len(data))) + data }
	data := func(segments ...string) string {
		return section(11, string(rune(len(segments)))+strings.Join(segments, ""))
	}
	const passive, counted = "\x01\x02pp", "\x0c\x01\x02"
	last := "\xff\xff\x03" // 65535
	for name, c := range map[string]struct {
		wasm, rest string // rest is "" where nothing is taken out
		memory     string // what it begins with, at least
	}{
		"one":               {memorySection + data(at("\x02", "abc")), memorySection, "\x00\x00abc"},
		"in their order":    {memorySection + data(at("\x01", "abc"), at("\x02", "XYZ")), memorySection, "\x00aXYZ"},
		"none":              {memorySection + data(), memorySection, ""},
		"passive":           {memorySection + counted + data(passive, at("\x00", "a")), memorySection + counted + data(passive, "\x01\x00"), "a"},
		"passive, no count": {memorySection + data(passive, at("\x00", "a")), memorySection, "a"},
		"up to the end":     {memorySection + data(at(last, "a")), memorySection, ""},
		"beyond the end":    {memorySection + data(at(last, "ab")), "", ""},
		"far beyond":        {memorySection + data(at("\x7f", "a")), "", ""},
		"no memory":         {data(at("\x00", "a")), "", ""},
		"no data":           {memorySection, "", ""},
		"offset of another": {memorySection + data("\x00\x23\x00\x0b\x01a"), "", ""},
		"offset of two":     {memorySection + data("\x00\x41\x00\x1a\x01a"), "", ""},
		"memory by number":  {memorySection + data("\x02\x00\x41\x00\x0b\x01a"), "", ""},
		"truncated":         {memorySection + "\x0b\x08\x01\x00\x41\x00\x0b\x05ab", "", ""},
		"left over":         {memorySection + section(11, "\x01"+at("\x00", "a")+"x"), "", ""},
		"not the last":      {memorySection + data(at("\x00", "a")) + codeSection, "", ""},
		"too many":          {memorySection + section(11, "\xff\xff\xff\xff\x0f"), "", ""},
	} {
		wasm := []byte(wasmHeader + c.wasm)
		before := bytes.Clone(wasm)
		rest, begins, ok := wasmbin.SplitData(wasm)
		want := c.rest
		if want == "" {
			want = c.wasm
		}
		if ok != (c.rest != "") || string(rest) != wasmHeader+want || !bytes.Equal(wasm, before) {
			t.Errorf("%s: %t, %x, want %x", name, ok, rest, wasmHeader+want)
		}
		memory := memoryOf(t, begins)
		if !bytes.HasPrefix(memory, []byte(c.memory)) || ok && len(memory) != 1<<16 {
			t.Errorf("%s: the memory begins with %x", name, memory[:min(len(memory), 16)])
		}
	}
}

func memoryOf(t *testing.T, b wasmbin.Beginning) []byte {
	t.Helper()
	memory := make([]byte, min(b.Size, 1<<24))
	for _, p := range b.Parts {
		if uint64(p.Offset)+uint64(len(p.Data)) > b.Size {
			t.Fatalf("%d bytes at %d of %d", len(p.Data), p.Offset, b.Size)
		}
		if b.Size <= 1<<24 {
			copy(memory[p.Offset:], p.Data)
		}
	}
	return memory
}

// FuzzSplitData: what is left is as valid as the module was, and what was taken
// out fits into the memory.
func FuzzSplitData(f *testing.F) {
	f.Add([]byte(memorySection + section(11, "\x01\x00\x41\x02\x0b\x03abc")))
	f.Add([]byte(memorySection + "\x0c\x01\x02" + section(11, "\x02\x01\x01a\x00\x41\x00\x0b\x02bc")))
	f.Add([]byte(typeSection + functionSection + memorySection + codeSection + section(11, "\x01\x00\x41\x7f\x0b\x01a")))
	f.Fuzz(func(t *testing.T, sections []byte) {
		wasm := append([]byte(wasmHeader), sections...)
		rest, begins, ok := wasmbin.SplitData(wasm)
		if !ok {
			if !bytes.Equal(rest, wasm) || begins.Parts != nil {
				t.Error("nothing was taken out, but it is another module")
			}
			return
		}
		memoryOf(t, begins)
		before, err := wasmbin.Parse(wasm)
		if err != nil {
			return
		}
		after, err := wasmbin.Parse(rest)
		if err != nil {
			t.Fatalf("what is left is not valid: %v", err)
		}
		for _, d := range after.Data {
			if d.Mode == wasmbin.Active {
				t.Error("an active segment is left")
			}
		}
		if before.DataCount != nil && len(after.Data) != len(before.Data) {
			t.Errorf("%d segments are left of %d", len(after.Data), len(before.Data))
		}
	})
}
