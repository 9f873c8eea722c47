package meter

import "github.com/wasm-ccm/wasm-ccm/host/internal/wasmbin"

// Opcodes of the binary format that the rewrite looks at or writes.
const (
	opUnreachable  = 0x00
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opDrop         = 0x1a
	opSelectTyped  = 0x1c
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opTableGet     = 0x25
	opTableSet     = 0x26
	opI32Load      = 0x28
	opI64Store32   = 0x3e
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opF32Const     = 0x43
	opF64Const     = 0x44
	opI32LtS       = 0x48
	opI32GtU       = 0x4b
	opI32LeU       = 0x4d
	opI64LtS       = 0x53
	opI64GtU       = 0x56
	opI32Add       = 0x6a
	opI32Sub       = 0x6b
	opI64Add       = 0x7c
	opI64Sub       = 0x7d
	opI64Shl       = 0x86
	opI64ShrU      = 0x88
	opI64ExtendI32 = 0xad
	opI64Extend32S = 0xc4
	opRefNull      = 0xd0
	opRefIsNull    = 0xd1
	opRefFunc      = 0xd2
	opPrefixMisc   = 0xfc
	opPrefixVector = 0xfd

	blockVoid = 0x40
)

// Instructions behind opPrefixMisc.
const (
	miscMemoryInit = 8
	miscDataDrop   = 9
	miscMemoryCopy = 10
	miscMemoryFill = 11
	miscTableInit  = 12
	miscElemDrop   = 13
	miscTableCopy  = 14
	miscTableGrow  = 15
	miscTableSize  = 16
	miscTableFill  = 17
)

// isMemoryAccess tells the loads and stores, which carry an alignment and an
// offset.
func isMemoryAccess(op byte) bool { return op >= opI32Load && op <= opI64Store32 }

// isPlain tells the instructions without immediates.
func isPlain(op byte) bool {
	switch op {
	case opUnreachable, 0x01, opElse, opDrop, 0x1b, opRefIsNull:
		return true
	}
	return op > opF64Const && op <= opI64Extend32S
}

// vectorImmediates passes over the immediates of an instruction behind
// opPrefixVector.
func vectorImmediates(r *wasmbin.Reader) {
	switch op := r.U32(); {
	case op <= 11, op == 92, op == 93:
		memoryAccess(r)
	case op == 12, op == 13:
		r.Bytes(16)
	case op >= 21 && op <= 34:
		r.Byte()
	case op >= 84 && op <= 91:
		memoryAccess(r)
		r.Byte()
	case op > 255:
		r.Fail("vector instruction %d is not supported", op)
	}
}

func memoryAccess(r *wasmbin.Reader) {
	if align := r.U32(); align >= 32 {
		r.Fail("an alignment of 2^%d is not possible in a 32 bit memory", align)
	}
	r.U32()
}

// zero reads the index of a memory: there is only one.
func zero(r *wasmbin.Reader) {
	if r.Byte() != 0 {
		r.Fail("more than one memory is not supported")
	}
}
