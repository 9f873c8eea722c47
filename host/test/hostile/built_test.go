package hostile_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// A guest that behaves, in parts, for modules that are too large for git. What
// is hostile is added to its sections.
type built struct {
	types, imports, tables, globals, exports, elements, bodies, datas [][]byte
	// functions are the types of the bodies.
	functions []uint32
	// before stands in front of all other sections.
	before []byte
	// hasDataCount adds the section that instructions about segments need.
	hasDataCount bool
}

// The types of the functions below.
const (
	typeNone = iota
	typeCall
	typeWrite
)

func newBuilt() *built {
	b := &built{
		types:   [][]byte{{0x60, 0, 0}, {0x60, 2, 0x7f, 0x7f, 1, 0x7f}, {0x60, 2, 0x7f, 0x7f, 0}},
		exports: [][]byte{append(name("memory"), 2, 0)},
		imports: [][]byte{slices.Concat(name("ccm_v1"), name("resp_write"), []byte{0, typeWrite})},
		datas:   [][]byte{append([]byte{0, 0x41, 0, 0x0b, 17}, "\x0a\x04test\x12\x011\x1a\x04test\x08\x01"...)},
	}
	b.function(typeNone, nil, nil)
	b.function(typeNone, nil, nil)
	// op == 1 answers with the first 15 bytes, every other op with the two
	// after them.
	b.function(typeCall, nil, []byte{
		0x20, 0, 0x41, 1, 0x46, 0x04, 0x40, // local.get 0, i32.const 1, i32.eq, if
		0x41, 0, 0x41, 15, 0x10, 0, 0x41, 0, 0x0f, 0x0b, // resp_write(0, 15), return 0, end
		0x41, 15, 0x41, 2, 0x10, 0, 0x41, 0, // resp_write(15, 2), 0
	})
	return b
}

// function adds a function with these groups of locals and this code.
func (b *built) function(kind uint32, locals [][]byte, code []byte) {
	b.functions = append(b.functions, kind)
	body := slices.Concat(vector(locals), code, []byte{0x0b})
	b.bodies = append(b.bodies, append(wasmbin.AppendU32(nil, uint32(len(body))), body...))
}

func (b *built) wasm() []byte {
	var functions [][]byte
	for _, kind := range b.functions {
		functions = append(functions, wasmbin.AppendU32(nil, kind))
	}
	exports := slices.Clone(b.exports)
	for i, export := range []string{"ccm_abi_v1", "_initialize", "ccm_call"} {
		exports = append(exports, wasmbin.AppendU32(append(name(export), 0), uint32(len(b.imports)+i)))
	}
	out := append([]byte("\x00asm\x01\x00\x00\x00"), b.before...)
	for _, s := range []struct {
		id      byte
		entries [][]byte
	}{
		{1, b.types}, {2, b.imports}, {3, functions}, {4, b.tables}, {5, [][]byte{{0, 1}}}, {6, b.globals},
		{7, exports}, {9, b.elements}, {10, b.bodies}, {11, b.datas},
	} {
		if s.id == 10 && b.hasDataCount {
			out = append(out, section(12, wasmbin.AppendU32(nil, uint32(len(b.datas))))...)
		}
		if len(s.entries) > 0 {
			out = append(out, section(s.id, vector(s.entries))...)
		}
	}
	return out
}

func section(id byte, content []byte) []byte {
	return append(wasmbin.AppendU32([]byte{id}, uint32(len(content))), content...)
}

func vector(entries [][]byte) []byte {
	return append(wasmbin.AppendU32(nil, uint32(len(entries))), bytes.Join(entries, nil)...)
}

func name(s string) []byte { return append(wasmbin.AppendU32(nil, uint32(len(s))), s...) }

// locals is a group of n locals of type i64.
func locals(n uint32) []byte { return append(wasmbin.AppendU32(nil, n), 0x7e) }

// builtCase returns a case for a guest that behaves but for what change adds.
func builtCase(name, tries, phase, want string, change func(*built)) hostileCase {
	return hostileCase{
		name: name, tries: tries, phase: phase, want: want,
		build: func(testing.TB) []byte {
			b := newBuilt()
			change(b)
			return b.wasm()
		},
	}
}
