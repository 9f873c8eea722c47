package hostile_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// encodingCases are modules that two readers of the format could read in
// different ways, so that what is metered would not be what runs. All of them
// are refused by name before anything is compiled. A text format cannot say
// most of it.
func encodingCases() []hostileCase {
	return slices.Concat(hiddenCases(), immediateCases(), bodyCases(), proposalCases())
}

// hidden is the constant of a v128.const: to a reader that takes another
// instruction in its place, it ends a block that is not entered, loops for ever
// and opens another block that is not entered.
var hidden = []byte{0x0b, 0x03, 0x40, 0x0c, 0, 0x0b, 0x41, 0, 0x04, 0x40, 1, 1, 1, 1, 1, 1}

// within is code in a block that is not entered, where any operands fit.
func within(code ...byte) []byte {
	return slices.Concat([]byte{0x41, 0, 0x04, 0x40}, code, []byte{0x00, 0x0b})
}

// vectorAndShift puts the operands of i16x8.shr_s on the stack, whose opcode is
// 0x8c: the first byte of a padded 12, which is v128.const.
var vectorAndShift = slices.Concat([]byte{0xfd, 0x0c}, make([]byte, 16), []byte{0x41, 0})

// refusedCode returns a case for a guest that runs the code when it is loaded.
func refusedCode(name, tries, want string, code ...byte) hostileCase {
	return builtCase("enc_"+name, tries, plugin.PhaseVerify, want, func(b *built) { b.initialize(code) })
}

// initialize replaces the code of _initialize.
func (b *built) initialize(code []byte) {
	body := slices.Concat([]byte{0}, code, []byte{0x0b})
	b.bodies[1] = append(wasmbin.AppendU32(nil, uint32(len(body))), body...)
}

// Padded opcodes: one reader takes the number behind the prefix for a LEB128,
// another one for a byte.
func hiddenCases() []hostileCase {
	hide := func(opcode ...byte) []byte { return within(slices.Concat(vectorAndShift, opcode, hidden)...) }
	call := slices.Concat([]byte{0x0b, 0x10, 2, 0x41, 0, 0x04, 0x40}, bytes.Repeat([]byte{1}, 9))
	return []hostileCase{
		refusedCode("hidden_loop", "An endless loop within the constant of a v128.const whose opcode is padded.",
			"the opcode 12 is padded", hide(0xfd, 0x8c, 0)...),
		refusedCode("hidden_loop_5", "The same, padded to five bytes.",
			"the opcode 12 is padded", hide(0xfd, 0x8c, 0x80, 0x80, 0x80, 0)...),
		refusedCode("hidden_call", "A call within the constant of a v128.const whose opcode is padded.",
			"the opcode 12 is padded", within(slices.Concat(vectorAndShift, []byte{0xfd, 0x8c, 0}, call)...)...),
		refusedCode("hidden_shuffle", "The same within the lanes of a shuffle.",
			"the opcode 13 is padded", within(slices.Concat(vectorAndShift, []byte{0xfd, 0x8d, 0}, hidden)...)...),
		refusedCode("vector_padded_3", "An opcode of two bytes in three.", "the opcode 140 is padded", within(0xfd, 0x8c, 0x81, 0)...),
		refusedCode("misc_padded", "memory.fill, whose opcode is padded.",
			"the opcode 11 is padded", 0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 0x8b, 0, 0),
		refusedCode("vector_6_bytes", "An opcode of six bytes.", "number too long", within(0xfd, 0x8c, 0x80, 0x80, 0x80, 0x80, 0)...),
		refusedCode("vector_33_bits", "An opcode of 33 bits, the lower 32 of which are v128.const.",
			"out of range", within(slices.Concat([]byte{0xfd, 0x8c, 0x80, 0x80, 0x80, 0x10}, hidden)...)...),
		refusedCode("vector_256", "Opcode 268, whose lower 8 bits are v128.const.",
			"is not one of WebAssembly 2.0", within(slices.Concat([]byte{0xfd, 0x8c, 0x02}, hidden)...)...),
	}
}

// Immediates that readers take in different ways.
func immediateCases() []hostileCase {
	return []hostileCase{
		refusedCode("block_value_padded", "A block of type i32, in two bytes.", "the type of a block is padded", 0x02, 0xff, 0x7f, 0x41, 0, 0x0b, 0x1a),
		refusedCode("block_void_padded", "A block of no type, in two bytes.", "the type of a block is padded", 0x02, 0xc0, 0x7f, 0x0b),
		refusedCode("loop_index_padded", "A loop of type 0, in two bytes.", "the type of a block is padded", 0x03, 0x80, 0, 0x0b),
		refusedCode("block_negative", "A block of a type below zero.", "the type of a block is padded or negative", 0x02, 0xbf, 0x7f, 0x0b),
		refusedCode("alignment_padded", "A load whose alignment is padded.", "the alignment 2 is padded", 0x41, 0, 0x28, 0x82, 0, 0, 0x1a),
		refusedCode("alignment_memory", "A load whose alignment says that the number of a memory follows.",
			"i32.load has an alignment of 2^66", 0x41, 0, 0x28, 0x42, 0, 0, 0x1a),
		refusedCode("alignment_large", "A load whose alignment is 2^32.", "an alignment of 2^32", 0x41, 0, 0x28, 0x20, 0, 0x1a),
		refusedCode("select_none", "A select of no types.", "a select has one type", within(0x1c, 0)...),
		refusedCode("select_two", "A select of two types.", "a select has one type", within(0x1c, 2, 0x7f, 0x7f)...),
		refusedCode("select_padded", "A select whose count of types is padded.", "a select has one type", within(0x1c, 0x81, 0, 0x7f)...),
		refusedCode("memory_index_padded", "memory.size of memory 0, in two bytes.", "more than one memory", 0x3f, 0x80, 0, 0x1a),
		refusedCode("memory_index_1", "memory.grow of memory 1.", "more than one memory", 0x41, 0, 0x40, 1, 0x1a),
		refusedCode("memory_copy_index", "memory.copy from memory 0, in two bytes.",
			"more than one memory", 0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 0x0a, 0, 0x80, 0),
		refusedCode("constant_long", "An i32.const of six bytes.", "number too long", 0x41, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0x1a),
		refusedCode("constant_wide", "An i32.const of 33 bits.", "number out of range", 0x41, 0x80, 0x80, 0x80, 0x80, 0x10, 0x1a),
		refusedCode("index_wide", "A call of function 2^32.", "number out of range", 0x10, 0x80, 0x80, 0x80, 0x80, 0x10),
		refusedCode("labels_4g", "A br_table of 2^32 - 1 labels.", "branch targets, at most", 0x41, 0, 0x0e, 0xff, 0xff, 0xff, 0xff, 0x0f, 0),
	}
}

// changed returns a case for a guest some of whose bytes are replaced.
func changed(name, tries, want, from, to string) hostileCase {
	return hostileCase{
		name: "enc_" + name, tries: tries, phase: plugin.PhaseVerify, want: want,
		build: func(tb testing.TB) []byte {
			wasm := string(newBuilt().wasm())
			if strings.Count(wasm, from) != 1 {
				tb.Fatalf("%x is there %d times", from, strings.Count(wasm, from))
			}
			return []byte(strings.Replace(wasm, from, to, 1))
		},
		raw: true,
	}
}

// Sections, segments and constant expressions that readers take in different
// ways.
func bodyCases() []hostileCase {
	part := func(name, tries, want string, change func(*built)) hostileCase {
		return builtCase("enc_"+name, tries, plugin.PhaseVerify, want, change)
	}
	const memory = "\x05\x03\x01\x00\x01"
	global := func(init ...byte) func(*built) {
		return func(b *built) { b.globals = append(b.globals, slices.Concat([]byte{0x7f, 0}, init, []byte{0x0b})) }
	}
	segment := func(bytes ...byte) func(*built) { return func(b *built) { b.datas = append(b.datas, bytes) } }
	element := func(bytes ...byte) func(*built) {
		return func(b *built) {
			b.tables = append(b.tables, []byte{0x70, 0, 1})
			b.elements = append(b.elements, bytes)
		}
	}
	return []hostileCase{
		part("constant_two", "A constant expression that calculates (extended-const).", "more than one instruction", global(0x41, 1, 0x41, 1, 0x6a)),
		part("constant_own_global", "A constant expression that reads a global of the module.", "not imported or not constant",
			func(b *built) { global(0x41, 1)(b); global(0x23, 0)(b) }),
		part("constant_call", "A constant expression that calls a function.", "call is not allowed in a constant expression", global(0x10, 1)),
		part("data_offset_two", "The offset of a data segment is calculated.", "more than one instruction", segment(0, 0x41, 1, 0x41, 1, 0x6a, 0x0b, 0)),
		part("data_flag_padded", "The flag of a data segment is padded.", "the flag of a data segment 1 is padded", segment(0x81, 0, 0)),
		part("data_memory_1", "A data segment for memory 1.", "more than one memory", segment(2, 1, 0x41, 0, 0x0b, 0)),
		part("element_flag_padded", "The flag of an element segment is padded.", "the flag of an element segment 0 is padded", element(0x80, 0, 0x41, 0, 0x0b, 0)),
		part("element_flag_8", "An element segment with a flag that does not exist.", "flags 8 is not supported", element(8, 0x41, 0, 0x0b, 0)),
		part("element_kind_1", "Elements of a kind that does not exist.", "elements of kind 0x01", element(1, 1, 0)),
		part("body_cut", "A function that ends within its last instruction, so that the next one goes on with it.", "unexpected end",
			func(b *built) { b.bodies[1] = []byte{2, 0, 0x41} }),
		part("body_beyond_end", "A function that goes on behind its end.", "bytes left over",
			func(b *built) { b.initialize([]byte{0x0b, 0x03, 0x40, 0x0c, 0, 0x0b}) }),
		part("name_not_utf8", "A custom section whose name is not UTF-8.", "not UTF-8", func(b *built) { b.before = []byte{0, 3, 2, 0xc3, 0x28} }),
		part("import_not_utf8", "An import whose name is not UTF-8.", "not UTF-8",
			func(b *built) { b.imports = append(b.imports, slices.Concat(name("ccm_v1"), []byte{1, 0xff, 0, 0})) }),
		part("import_no_module", "An import of a module without a name.", "from a module without a name",
			func(b *built) { b.imports = append(b.imports, slices.Concat(name(""), name("x"), []byte{0, 0})) }),
		part("export_twice", "Two exports of one name, of which readers take the first or the last.", `two exports are called "memory"`,
			func(b *built) { b.exports = append(b.exports, append(name("memory"), 2, 0)) }),
		changed("section_size_6_bytes", "The size of a section in six bytes.", "number too long", memory, "\x05\x83\x80\x80\x80\x80\x00\x01\x00\x01"),
		changed("section_size_33_bits", "The size of a section in 33 bits.", "out of range", memory, "\x05\x83\x80\x80\x80\x10\x01\x00\x01"),
		changed("section_overlap", "A section that reaches into the next one.", "bytes left over", memory, "\x05\x05\x01\x00\x01"),
		changed("section_short", "A section that ends in the middle of an entry.", "unexpected end", memory, "\x05\x02\x01\x00\x01"),
		changed("count_33_bits", "The count of a section in 33 bits.", "out of range", memory, "\x05\x07\x81\x80\x80\x80\x10\x00\x01"),
		changed("section_twice", "A section that stands twice.", "stands twice", memory, memory+memory),
		{
			name: "enc_data_count_more", tries: "A count of data segments above theirs.", phase: plugin.PhaseVerify, raw: true,
			want: "the data count section says 7 segments",
			build: func(testing.TB) []byte {
				b := newBuilt()
				code := section(wasmbin.SectionCode, vector(b.bodies))
				count := section(wasmbin.SectionDataCount, []byte{7})
				return bytes.Replace(b.wasm(), code, append(count, code...), 1)
			},
		},
	}
}

// What came after WebAssembly 2.0: an engine may know it already, or take
// another instruction for it.
func proposalCases() (all []hostileCase) {
	for _, c := range []struct {
		name, want string
		code       []byte
	}{
		{"vector_154", "instruction 0xfd 154 is not one", []byte{0xfd, 0x9a, 0x01}},
		{"vector_162", "instruction 0xfd 162 is not one", []byte{0xfd, 0xa2, 0x01}},
		{"relaxed_swizzle", "is not one of WebAssembly 2.0", []byte{0xfd, 0x80, 0x02}},
		{"relaxed_madd", "is not one of WebAssembly 2.0", []byte{0xfd, 0x85, 0x02}},
		{"add128", "instruction 0xfc 19 is not one", []byte{0xfc, 0x13}},
		{"return_call", "instruction 0x12 is not one", []byte{0x12, 1}},
		{"return_call_indirect", "instruction 0x13 is not one", []byte{0x13, 0, 0}},
		{"call_ref", "instruction 0x14 is not one", []byte{0x14, 0}},
		{"ref_as_non_null", "instruction 0xd4 is not one", []byte{0xd4}},
		{"ref_eq", "instruction 0xd3 is not one", []byte{0xd3}},
		{"struct_new", "instruction 0xfb is not one", []byte{0xfb, 0, 0}},
		{"ref_i31", "instruction 0xfb is not one", []byte{0xfb, 0x1c}},
		{"atomic_fence", "instruction 0xfe is not one", []byte{0xfe, 3, 0}},
		{"atomic_wait", "instruction 0xfe is not one", []byte{0xfe, 1, 2, 0}},
		{"try", "instruction 0x06 is not one", []byte{0x06, 0x40, 0x0b}},
		{"try_table", "instruction 0x1f is not one", []byte{0x1f, 0x40, 0, 0x0b}},
		{"throw", "instruction 0x08 is not one", []byte{0x08, 0}},
		{"throw_ref", "instruction 0x0a is not one", []byte{0x0a}},
	} {
		all = append(all, refusedCode(c.name, fmt.Sprintf("An instruction that WebAssembly 2.0 does not have: % x.", c.code), c.want, within(c.code...)...))
	}
	return append(all,
		builtCase("enc_type_rec", "A group of recursive types.", plugin.PhaseVerify, "type form 0x4e", func(b *built) { b.types = append(b.types, []byte{0x4e, 0}) }),
		builtCase("enc_type_struct", "The type of a struct.", plugin.PhaseVerify, "type form 0x5f", func(b *built) { b.types = append(b.types, []byte{0x5f, 0}) }),
		builtCase("enc_type_reference", "A reference to a type of the module.", plugin.PhaseVerify, "type 0x64 is not a value type",
			func(b *built) { b.types = append(b.types, []byte{0x60, 1, 0x64, 0, 0}) }),
		builtCase("enc_table_init", "A table with a first value.", plugin.PhaseVerify, "type 0x40 is not a reference type",
			func(b *built) { b.tables = append(b.tables, []byte{0x40, 0, 0x70, 0, 1, 0xd0, 0x70, 0x0b}) }),
		builtCase("enc_table_64", "A table of 64 bit.", plugin.PhaseVerify, "shared or 64 bit", func(b *built) { b.tables = append(b.tables, []byte{0x70, 4, 1}) }),
		changed("memory_page_size", "A memory with pages of one byte.", "shared or 64 bit", "\x05\x03\x01\x00\x01", "\x05\x04\x01\x08\x01\x00"),
		changed("tag_section", "A section of tags.", "section 13 is unknown", "\x05\x03\x01\x00\x01", "\x05\x03\x01\x00\x01\x0d\x03\x01\x00\x00"),
	)
}
