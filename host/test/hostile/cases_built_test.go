package hostile_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// builtCases are modules that are too large for git.
func builtCases() []hostileCase { return append(declaredCases(), bombCases()...) }

// 5, 13: they declare more than there is, or than there may be. None of it
// reaches the compiler.
func declaredCases() []hostileCase {
	verify := plugin.PhaseVerify
	code := func(b *built, content []byte) { b.function(typeNone, nil, content) }
	return []hostileCase{
		builtCase("locals_many", "A function with 5,000 locals.", verify, "4096", func(b *built) {
			b.function(typeNone, [][]byte{locals(5000)}, nil)
		}),
		builtCase("locals_4g", "Four billion locals in eight bytes.", verify, "4096", func(b *built) {
			b.function(typeNone, [][]byte{locals(1<<32 - 1), locals(1<<32 - 1)}, nil)
		}),
		builtCase("locals_groups", "A million groups of no locals.", verify, "4096", func(b *built) {
			groups := make([][]byte, 1<<20)
			for i := range groups {
				groups[i] = locals(0)
			}
			b.function(typeNone, groups, nil)
		}),
		builtCase("nesting_deep", "Blocks that nest 100,000 deep.", verify, "8192", func(b *built) {
			code(b, append(bytes.Repeat([]byte{0x02, 0x40}, 100_000), bytes.Repeat([]byte{0x0b}, 100_000)...))
		}),
		builtCase("body_large", "A function of 5 MiB.", verify, "4194304", func(b *built) {
			code(b, bytes.Repeat([]byte{0x01}, 5<<20))
		}),
		builtCase("functions_many", "300,000 functions.", verify, "262144", func(b *built) {
			for range 300_000 {
				code(b, nil)
			}
		}),
		builtCase("types_many", "70,000 types.", verify, "65536", func(b *built) {
			for range 70_000 {
				b.types = append(b.types, []byte{0x60, 0, 0})
			}
		}),
		builtCase("types_large", "300 types of 2,000 vectors.", verify, "262144 parameters and results", func(b *built) {
			for range 300 {
				b.types = append(b.types, typeOf(1000, 1000))
			}
		}),
		builtCase("globals_many", "5,000 globals.", verify, "4096", func(b *built) {
			for range 5000 {
				b.globals = append(b.globals, []byte{0x7e, 1, 0x42, 0, 0x0b})
			}
		}),
		builtCase("elements_many", "150,000 elements in two segments.", verify, "131072", func(b *built) {
			for range 2 {
				b.elements = append(b.elements, slices.Concat([]byte{1, 0}, wasmbin.AppendU32(nil, 75_000), bytes.Repeat([]byte{1}, 75_000)))
			}
		}),
		builtCase("params_many", "A function with 5,000 parameters.", verify, "at most 1000", func(b *built) {
			b.types = append(b.types, append(append(wasmbin.AppendU32([]byte{0x60}, 5000), bytes.Repeat([]byte{0x7e}, 5000)...), 0))
		}),
		builtCase("imports_many", "2,000 imports.", verify, "1024", func(b *built) {
			for range 2000 {
				b.imports = append(b.imports, b.imports[0])
			}
		}),
		builtCase("exports_many", "20,000 exports.", verify, "16384", func(b *built) {
			for range 20_000 {
				b.exports = append(b.exports, append(name("x"), 0, 0))
			}
		}),
		builtCase("name_long", "An import with a name of a megabyte.", verify, "bytes in a name", func(b *built) {
			b.imports = append(b.imports, append(append(name("ccm_v1"), name(strings.Repeat("x\n", 1<<19))...), 0, typeNone))
		}),
		builtCase("data_4g", "A data segment that says it holds 4 GiB.", verify, "unexpected end", func(b *built) {
			b.datas = append(b.datas, append([]byte{0, 0x41, 0, 0x0b}, binary.AppendUvarint(nil, 1<<32-1)...))
		}),
		builtCase("data_many", "140,000 data segments.", verify, "131072", func(b *built) {
			for range 140_000 {
				b.datas = append(b.datas, []byte{1, 0})
			}
		}),
	}
}

// nested is a block in so many others of its kind, around code.
func nested(depth int, open, code []byte) []byte {
	return slices.Concat(bytes.Repeat(open, depth), code, bytes.Repeat([]byte{0x0b}, depth))
}

// 5: they keep the compiler busy, or make it use memory, within what may be
// declared. They are refused within the limits of a compilation, or they load
// within them, and then they serve.
func bombCases() []hostileCase {
	bomb := func(name, tries string, change func(*built)) hostileCase {
		c := builtCase(name, tries, plugin.PhaseCompile, "compiling", change)
		c.either = true
		return c
	}
	return []hostileCase{
		bomb("bomb_locals", "10 functions with 50 loops, each of which changes 1,000 locals.", func(b *built) {
			var loop []byte
			for i := range uint64(1000) {
				loop = append(append(append(append(loop, 0x20), binary.AppendUvarint(nil, i)...), 0x42, 1, 0x7c, 0x21), binary.AppendUvarint(nil, i)...)
			}
			loop = slices.Concat([]byte{0x03, 0x40}, loop, []byte{0x20, 0, 0x50, 0x0d, 0, 0x0b}) // while local 0 is 0
			for range 10 {
				b.function(typeNone, [][]byte{locals(1000)}, bytes.Repeat(loop, 50))
			}
		}),
		bomb("bomb_functions", "50,000 small functions.", func(b *built) {
			for range 50_000 {
				b.function(typeNone, nil, []byte{0x41, 1, 0x1a})
			}
		}),
		bomb("bomb_nesting", "20 functions of blocks that nest 8,000 deep.", func(b *built) {
			for range 20 {
				b.function(typeNone, nil, nested(8000, []byte{0x02, 0x40}, nil))
			}
		}),
		bomb("bomb_loops", "4 functions of loops that nest 8,000 deep.", func(b *built) {
			for range 4 {
				b.function(typeNone, nil, nested(8000, []byte{0x03, 0x40}, nil))
			}
		}),
		bomb("bomb_ifs", "A function of ifs that nest 8,000 deep, each of which sets one of 4,000 locals.", func(b *built) {
			var code []byte
			for i := range 8000 {
				code = wasmbin.AppendU32(append(code, 0x41, 1, 0x04, 0x40, 0x42, 1, 0x21), uint32(i%4000))
			}
			b.function(typeNone, [][]byte{locals(4000)}, append(code, bytes.Repeat([]byte{0x0b}, 8000)...))
		}),
		bomb("bomb_resume", "A function as stock Go makes it: a branch table into 8,000 blocks.", func(b *built) {
			table := wasmbin.AppendU32([]byte{0x41, 0, 0x0e}, 7999)
			for i := range uint32(8000) {
				table = wasmbin.AppendU32(table, i)
			}
			b.function(typeNone, nil, nested(8000, []byte{0x02, 0x40}, table))
		}),
		bomb("bomb_segments", "130,000 data segments, each of which writes one byte.", func(b *built) {
			for range 130_000 {
				b.datas = append(b.datas, []byte{0, 0x41, 0xe0, 0xd4, 0x03, 0x0b, 1, 0}) // at 60,000
			}
		}),
		bomb("bomb_branch_table", "A branch table of 100,000 targets.", func(b *built) {
			table := append([]byte{0x02, 0x40, 0x41, 0, 0x0e}, binary.AppendUvarint(nil, 100_000)...)
			b.function(typeNone, nil, append(append(table, make([]byte, 100_001)...), 0x0b))
		}),
		bomb("bomb_body", "A function of 500 KiB in one straight line.", func(b *built) {
			b.function(typeNone, nil, bytes.Repeat([]byte{0x41, 1, 0x1a}, 500<<10/3))
		}),
		bomb("bomb_globals", "4,000 globals.", func(b *built) {
			for range 4000 {
				b.globals = append(b.globals, []byte{0x7e, 1, 0x42, 0, 0x0b})
			}
		}),
		bomb("bomb_elements", "An element segment of 120,000 functions.", func(b *built) {
			b.tables = [][]byte{append([]byte{0x70, 0}, binary.AppendUvarint(nil, 120_000)...)}
			b.elements = [][]byte{append(append([]byte{0, 0x41, 0, 0x0b}, binary.AppendUvarint(nil, 120_000)...), bytes.Repeat([]byte{1}, 120_000)...)}
		}),
		bomb("bomb_data", "32 MiB of data in a memory of one page.", func(b *built) {
			b.datas = append(b.datas, append(append([]byte{1}, binary.AppendUvarint(nil, 32<<20)...), make([]byte, 32<<20)...))
		}),
		bomb("bomb_custom", "A custom section of 16 MiB.", func(b *built) {
			b.before = section(0, append(name("x"), make([]byte, 16<<20)...))
		}),
	}
}
