package wasmbin

// Opcodes that are used beyond their Spec.
const (
	OpUnreachable  Opcode = 0x00
	OpBlock        Opcode = 0x02
	OpLoop         Opcode = 0x03
	OpIf           Opcode = 0x04
	OpElse         Opcode = 0x05
	OpEnd          Opcode = 0x0b
	OpBr           Opcode = 0x0c
	OpBrIf         Opcode = 0x0d
	OpBrTable      Opcode = 0x0e
	OpReturn       Opcode = 0x0f
	OpCall         Opcode = 0x10
	OpCallIndirect Opcode = 0x11
	OpDrop         Opcode = 0x1a
	OpSelect       Opcode = 0x1b
	OpSelectTyped  Opcode = 0x1c
	OpLocalGet     Opcode = 0x20
	OpLocalSet     Opcode = 0x21
	OpLocalTee     Opcode = 0x22
	OpGlobalGet    Opcode = 0x23
	OpGlobalSet    Opcode = 0x24
	OpTableGet     Opcode = 0x25
	OpTableSet     Opcode = 0x26
	OpI32Const     Opcode = 0x41
	OpI64Const     Opcode = 0x42
	OpF32Const     Opcode = 0x43
	OpF64Const     Opcode = 0x44
	OpMemoryGrow   Opcode = 0x40
	OpRefNull      Opcode = 0xd0
	OpRefIsNull    Opcode = 0xd1
	OpRefFunc      Opcode = 0xd2

	OpMemoryInit Opcode = prefixMisc<<24 | 8
	OpDataDrop   Opcode = prefixMisc<<24 | 9
	OpMemoryCopy Opcode = prefixMisc<<24 | 10
	OpMemoryFill Opcode = prefixMisc<<24 | 11
	OpTableInit  Opcode = prefixMisc<<24 | 12
	OpElemDrop   Opcode = prefixMisc<<24 | 13
	OpTableCopy  Opcode = prefixMisc<<24 | 14
	OpTableGrow  Opcode = prefixMisc<<24 | 15
	OpTableSize  Opcode = prefixMisc<<24 | 16
	OpTableFill  Opcode = prefixMisc<<24 | 17

	OpV128Const Opcode = prefixVector<<24 | 12
)
