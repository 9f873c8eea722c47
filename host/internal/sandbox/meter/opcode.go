package meter

// Opcodes and types that the rewrite writes.
const (
	opUnreachable  = 0x00
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opCall         = 0x10
	opDrop         = 0x1a
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opMemorySize   = 0x3f
	opI32Const     = 0x41
	opI64Const     = 0x42
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
	opPrefixMisc   = 0xfc

	// Behind opPrefixMisc.
	miscMemoryCopy = 10
	miscMemoryFill = 11

	blockVoid = 0x40
	typeFunc  = 0x60
)
