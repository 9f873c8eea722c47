package differential_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// TestEveryOpcodeIsReadTheSame puts each opcode that there could be, of one byte
// and behind each prefix, into code that is not reached, with any number of
// equal bytes behind it, which are immediates to some and instructions to
// others: who reads one immediate more or less than we do gives another verdict.
func TestEveryOpcodeIsReadTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	readers, accepted, modules := validators(t), 0, 0
	for _, opcode := range everyOpcode() {
		for _, fill := range []byte{0x00, 0x01, 0x70} {
			for _, n := range []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17} {
				for _, ends := range []int{1, 2} {
					wasm := moduleOf(slices.Concat([]byte{0x00}, opcode, bytes.Repeat([]byte{fill}, n), []byte{0x00}, bytes.Repeat([]byte{0x0b}, ends)))
					ours := validate(wasm)
					modules++
					if ours == nil {
						accepted++
					}
					for _, r := range readers {
						if ours != nil && r.name() == "wazero" {
							continue // it takes a byte where others take a number
						}
						if theirs := r.accepts(wasm); (theirs == nil) != (ours == nil) && (ours == nil || purpose(ours) == "") {
							t.Errorf("% x and %d bytes %#x: we say %v, %s says %v", opcode, n, fill, ours, r.name(), theirs)
						}
					}
				}
			}
		}
	}
	t.Logf("%d of %d modules are accepted", accepted, modules)
	if accepted < 5000 {
		t.Error("few modules are accepted: they show nothing")
	}
}

func everyOpcode() (all [][]byte) {
	for n := range uint32(256) {
		if n < 0xfb || n > 0xfe {
			all = append(all, []byte{byte(n)})
		}
		for _, prefix := range []byte{0xfb, 0xfc, 0xfe} {
			if n < 64 {
				all = append(all, wasmbin.AppendU32([]byte{prefix}, n))
			}
		}
		all = append(all, wasmbin.AppendU32([]byte{0xfd}, n), wasmbin.AppendU32([]byte{0xfd}, n+256))
	}
	return all
}

// moduleOf returns a module with one function of two locals, and with one of
// everything that instructions refer to.
func moduleOf(code []byte) []byte {
	body := append([]byte{1, 2, wasmbin.I32}, code...)
	body = append(wasmbin.AppendU32([]byte{1}, uint32(len(body))), body...)
	out := wasmbin.Header()
	for _, s := range []struct {
		id      byte
		content string
	}{
		{wasmbin.SectionType, "\x01\x60\x00\x00"},
		{wasmbin.SectionFunction, "\x01\x00"},
		{wasmbin.SectionTable, "\x02\x70\x00\x05\x70\x00\x05"},
		{wasmbin.SectionMemory, "\x01\x00\x01"},
		{wasmbin.SectionGlobal, "\x02\x7f\x01\x41\x07\x0b\x7f\x01\x41\x07\x0b"},
		{wasmbin.SectionExport, "\x01\x00\x00\x00"}, // which declares the function
		{wasmbin.SectionElement, "\x02\x01\x00\x00\x01\x00\x00"},
		{wasmbin.SectionDataCount, "\x02"},
		{wasmbin.SectionCode, string(body)},
		{wasmbin.SectionData, "\x02\x01\x00\x01\x00"},
	} {
		out = append(wasmbin.AppendU32(append(out, s.id), uint32(len(s.content))), s.content...)
	}
	return out
}
