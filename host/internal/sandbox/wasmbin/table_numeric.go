package wasmbin

import "strings"

// family are instructions of consecutive opcodes whose Specs differ by name only. Operands
// whose types depend on more than the opcode are in validate.go.
type family struct {
	first           byte
	names           string
	imm             Immediate
	params, results string
	arg             byte
}

func table(families []family) (specs [256]Spec) {
	for _, f := range families {
		for i, name := range strings.Split(f.names, ", ") {
			specs[int(f.first)+i] = Spec{name, f.imm, f.params, f.results, f.arg}
		}
	}
	return specs
}

// oneByte are the instructions of one byte.
var oneByte = table([]family{
	{0x00, "unreachable, nop", immNone, "", "", 0},
	{0x02, "block, loop", immBlock, "", "", 0},
	{0x04, "if", immBlock, i32, "", 0},
	{0x05, "else", immNone, "", "", 0},
	{0x0b, "end", immNone, "", "", 0},
	{0x0c, "br", immLabel, "", "", 0},
	{0x0d, "br_if", immLabel, i32, "", 0},
	{0x0e, "br_table", immLabels, i32, "", 0},
	{0x0f, "return", immNone, "", "", 0},
	{0x10, "call", immFunction, "", "", 0},
	{0x11, "call_indirect", immCallIndirect, i32, "", 0},
	{0x1a, "drop, select", immNone, "", "", 0},
	{0x1c, "select (typed)", immSelect, "", "", 0},
	{0x20, "local.get, local.set, local.tee", immLocal, "", "", 0},
	{0x23, "global.get, global.set", immGlobal, "", "", 0},
	{0x25, "table.get, table.set", immTable, "", "", 0},
	{0x28, "i32.load", immMemory, i32, i32, 2},
	{0x29, "i64.load", immMemory, i32, i64, 3},
	{0x2a, "f32.load", immMemory, i32, f32, 2},
	{0x2b, "f64.load", immMemory, i32, f64, 3},
	{0x2c, "i32.load8_s, i32.load8_u", immMemory, i32, i32, 0},
	{0x2e, "i32.load16_s, i32.load16_u", immMemory, i32, i32, 1},
	{0x30, "i64.load8_s, i64.load8_u", immMemory, i32, i64, 0},
	{0x32, "i64.load16_s, i64.load16_u", immMemory, i32, i64, 1},
	{0x34, "i64.load32_s, i64.load32_u", immMemory, i32, i64, 2},
	{0x36, "i32.store", immMemory, i32 + i32, "", 2},
	{0x37, "i64.store", immMemory, i32 + i64, "", 3},
	{0x38, "f32.store", immMemory, i32 + f32, "", 2},
	{0x39, "f64.store", immMemory, i32 + f64, "", 3},
	{0x3a, "i32.store8", immMemory, i32 + i32, "", 0},
	{0x3b, "i32.store16", immMemory, i32 + i32, "", 1},
	{0x3c, "i64.store8", immMemory, i32 + i64, "", 0},
	{0x3d, "i64.store16", immMemory, i32 + i64, "", 1},
	{0x3e, "i64.store32", immMemory, i32 + i64, "", 2},
	{0x3f, "memory.size", immZero, "", i32, 0},
	{0x40, "memory.grow", immZero, i32, i32, 0},
	{0x41, "i32.const", immI32, "", i32, 0},
	{0x42, "i64.const", immI64, "", i64, 0},
	{0x43, "f32.const", immBytes, "", f32, 4},
	{0x44, "f64.const", immBytes, "", f64, 8},
	{0x45, "i32.eqz", immNone, i32, i32, 0},
	{0x46, "i32.eq, i32.ne, i32.lt_s, i32.lt_u, i32.gt_s, i32.gt_u, i32.le_s, i32.le_u, i32.ge_s, i32.ge_u", immNone, i32 + i32, i32, 0},
	{0x50, "i64.eqz", immNone, i64, i32, 0},
	{0x51, "i64.eq, i64.ne, i64.lt_s, i64.lt_u, i64.gt_s, i64.gt_u, i64.le_s, i64.le_u, i64.ge_s, i64.ge_u", immNone, i64 + i64, i32, 0},
	{0x5b, "f32.eq, f32.ne, f32.lt, f32.gt, f32.le, f32.ge", immNone, f32 + f32, i32, 0},
	{0x61, "f64.eq, f64.ne, f64.lt, f64.gt, f64.le, f64.ge", immNone, f64 + f64, i32, 0},
	{0x67, "i32.clz, i32.ctz, i32.popcnt", immNone, i32, i32, 0},
	{0x6a, "i32.add, i32.sub, i32.mul, i32.div_s, i32.div_u, i32.rem_s, i32.rem_u, i32.and, i32.or, i32.xor, i32.shl, i32.shr_s", immNone, i32 + i32, i32, 0},
	{0x76, "i32.shr_u, i32.rotl, i32.rotr", immNone, i32 + i32, i32, 0},
	{0x79, "i64.clz, i64.ctz, i64.popcnt", immNone, i64, i64, 0},
	{0x7c, "i64.add, i64.sub, i64.mul, i64.div_s, i64.div_u, i64.rem_s, i64.rem_u, i64.and, i64.or, i64.xor, i64.shl, i64.shr_s", immNone, i64 + i64, i64, 0},
	{0x88, "i64.shr_u, i64.rotl, i64.rotr", immNone, i64 + i64, i64, 0},
	{0x8b, "f32.abs, f32.neg, f32.ceil, f32.floor, f32.trunc, f32.nearest, f32.sqrt", immNone, f32, f32, 0},
	{0x92, "f32.add, f32.sub, f32.mul, f32.div, f32.min, f32.max, f32.copysign", immNone, f32 + f32, f32, 0},
	{0x99, "f64.abs, f64.neg, f64.ceil, f64.floor, f64.trunc, f64.nearest, f64.sqrt", immNone, f64, f64, 0},
	{0xa0, "f64.add, f64.sub, f64.mul, f64.div, f64.min, f64.max, f64.copysign", immNone, f64 + f64, f64, 0},
	{0xa7, "i32.wrap_i64", immNone, i64, i32, 0},
	{0xa8, "i32.trunc_f32_s, i32.trunc_f32_u", immNone, f32, i32, 0},
	{0xaa, "i32.trunc_f64_s, i32.trunc_f64_u", immNone, f64, i32, 0},
	{0xac, "i64.extend_i32_s, i64.extend_i32_u", immNone, i32, i64, 0},
	{0xae, "i64.trunc_f32_s, i64.trunc_f32_u", immNone, f32, i64, 0},
	{0xb0, "i64.trunc_f64_s, i64.trunc_f64_u", immNone, f64, i64, 0},
	{0xb2, "f32.convert_i32_s, f32.convert_i32_u", immNone, i32, f32, 0},
	{0xb4, "f32.convert_i64_s, f32.convert_i64_u", immNone, i64, f32, 0},
	{0xb6, "f32.demote_f64", immNone, f64, f32, 0},
	{0xb7, "f64.convert_i32_s, f64.convert_i32_u", immNone, i32, f64, 0},
	{0xb9, "f64.convert_i64_s, f64.convert_i64_u", immNone, i64, f64, 0},
	{0xbb, "f64.promote_f32", immNone, f32, f64, 0},
	{0xbc, "i32.reinterpret_f32", immNone, f32, i32, 0},
	{0xbd, "i64.reinterpret_f64", immNone, f64, i64, 0},
	{0xbe, "f32.reinterpret_i32", immNone, i32, f32, 0},
	{0xbf, "f64.reinterpret_i64", immNone, i64, f64, 0},
	{0xc0, "i32.extend8_s, i32.extend16_s", immNone, i32, i32, 0},
	{0xc2, "i64.extend8_s, i64.extend16_s, i64.extend32_s", immNone, i64, i64, 0},
	{0xd0, "ref.null", immRefType, "", "", 0},
	{0xd1, "ref.is_null", immNone, "", "", 0},
	{0xd2, "ref.func", immFunction, "", "", 0},
})

// misc are the instructions behind prefixMisc.
var misc = table([]family{
	{0x00, "i32.trunc_sat_f32_s, i32.trunc_sat_f32_u", immNone, f32, i32, 0},
	{0x02, "i32.trunc_sat_f64_s, i32.trunc_sat_f64_u", immNone, f64, i32, 0},
	{0x04, "i64.trunc_sat_f32_s, i64.trunc_sat_f32_u", immNone, f32, i64, 0},
	{0x06, "i64.trunc_sat_f64_s, i64.trunc_sat_f64_u", immNone, f64, i64, 0},
	{0x08, "memory.init", immDataMemory, i32 + i32 + i32, "", 0},
	{0x09, "data.drop", immData, "", "", 0},
	{0x0a, "memory.copy", immZeroZero, i32 + i32 + i32, "", 0},
	{0x0b, "memory.fill", immZero, i32 + i32 + i32, "", 0},
	{0x0c, "table.init", immElementTable, i32 + i32 + i32, "", 0},
	{0x0d, "elem.drop", immElement, "", "", 0},
	{0x0e, "table.copy", immTableTable, i32 + i32 + i32, "", 0},
	{0x0f, "table.grow, table.size", immTable, "", i32, 0},
	{0x11, "table.fill", immTable, "", "", 0},
})
