package meter

import (
	"slices"

	"github.com/wasm-ccm/wasm-ccm/host/internal/wasmbin"
)

// body rewrites one function body.
type body struct {
	m   *rewriter
	r   *wasmbin.Reader
	out []byte
	// locals counts parameters and declared locals. One more, of type i32, is
	// added when the function has a bulk operation.
	locals  uint32
	scratch bool
	// charges are the places where a constant cost is patched in, the first
	// for the function itself, and one for each loop. current is the one that
	// instructions count for now, blocks the ones of the enclosing blocks.
	charges []charge
	current int
	blocks  []int
}

type charge struct {
	at   int
	cost uint32
}

func (m *rewriter) body(content []byte, params uint32) ([]byte, error) {
	b := &body{m: m, r: &wasmbin.Reader{Data: content}, locals: params}
	groups, declared := b.declaredLocals()
	b.out = make([]byte, 0, len(content)*3/2+64)
	b.enter()
	for len(b.blocks) > 0 && b.r.Err == nil {
		b.instruction()
	}
	if err := b.r.Done("code"); err != nil {
		return nil, err
	}
	for _, c := range b.charges {
		putPadded(b.out[c.at:], c.cost)
	}
	var head []byte
	if b.scratch {
		head = append(wasmbin.AppendU32(nil, groups+1), declared...)
		head = append(head, 1, typeI32)
	} else {
		head = append(wasmbin.AppendU32(nil, groups), declared...)
	}
	return slices.Concat(head, b.out), nil
}

// declaredLocals counts the locals and returns their declaration as it is.
func (b *body) declaredLocals() (groups uint32, declared []byte) {
	groups = b.r.Count("groups of locals", maxLocals)
	start := b.r.Pos
	for range groups {
		n := b.r.U32()
		if n > maxLocals || b.locals+n > maxLocals {
			b.r.Fail("more than %d locals in one function; split the function", maxLocals)
		}
		b.locals += n
		b.r.Byte()
	}
	return groups, b.r.Data[start:b.r.Pos]
}

// enter begins the function or a loop: what follows is paid for here.
func (b *body) enter() {
	b.blocks = append(b.blocks, len(b.charges))
	b.current = len(b.charges)
	b.global(opGlobalGet)
	b.out = append(b.out, opI64Const)
	b.charges = append(b.charges, charge{at: len(b.out), cost: 1})
	b.out = append(b.out, make([]byte, paddedBytes)...)
	b.pay()
}

// pay takes the cost that lies on the stack, above the fuel, and asks the host
// when the fuel is used up.
func (b *body) pay() {
	b.out = append(b.out, opI64Sub)
	b.global(opGlobalSet)
	b.global(opGlobalGet)
	b.out = append(b.out, opI64Const, 0, opI64LtS, opIf, blockVoid)
	b.global(opGlobalGet)
	b.out = wasmbin.AppendU32(append(b.out, opCall), b.m.importedFuncs)
	b.global(opGlobalSet)
	b.out = append(b.out, opEnd)
}

// payLength charges for the i32 on top of the stack, which stays there.
func (b *body) payLength(unitsLog2 byte) {
	b.scratch = true
	b.out = wasmbin.AppendU32(append(b.out, opLocalTee), b.locals)
	b.global(opGlobalGet)
	b.out = wasmbin.AppendU32(append(b.out, opLocalGet), b.locals)
	b.out = append(b.out, opI64ExtendI32, opI64Const, unitsLog2, opI64ShrU)
	b.pay()
}

func (b *body) global(op byte) { b.out = wasmbin.AppendU32(append(b.out, op), b.m.fuel) }

// instruction rewrites the next instruction.
func (b *body) instruction() {
	start := b.r.Pos
	b.charges[b.current].cost++
	op := b.r.Byte()
	switch op {
	case opCall, opRefFunc:
		b.out = wasmbin.AppendU32(append(b.out, op), b.m.shift(b.r.U32()))
		return
	case opPrefixMisc:
		b.misc(start)
		return
	case opMemoryGrow:
		zero(b.r)
		b.payLength(0)
	case opBlock, opIf:
		b.blockType()
		b.blocks = append(b.blocks, b.current)
	case opLoop:
		b.blockType()
		b.copyFrom(start)
		b.enter()
		return
	case opEnd:
		b.leave()
	default:
		b.immediates(op)
	}
	b.copyFrom(start)
}

func (b *body) copyFrom(start int) { b.out = append(b.out, b.r.Data[start:b.r.Pos]...) }

// blockType reads the type of a block.
func (b *body) blockType() {
	if len(b.blocks) >= maxBlockDepth {
		b.r.Fail("blocks nest deeper than %d", maxBlockDepth)
	}
	if b.r.Pos < len(b.r.Data) && b.r.Data[b.r.Pos]&0xc0 == 0x40 {
		b.r.Byte() // one negative byte: void or a value type
		return
	}
	b.m.typeIndex(b.r)
}

func (b *body) leave() {
	b.blocks = b.blocks[:len(b.blocks)-1]
	if n := len(b.blocks); n > 0 {
		b.current = b.blocks[n-1]
	}
}

// immediates passes over the immediates of an instruction that is kept as it
// is.
func (b *body) immediates(op byte) {
	r := b.r
	switch {
	case isPlain(op):
	case isMemoryAccess(op):
		memoryAccess(r)
	case op >= opLocalGet && op <= opLocalTee:
		b.index("local", b.locals)
	case op == opGlobalGet, op == opGlobalSet:
		b.index("global", b.m.fuel)
	case op == opBr, op == opBrIf, op == opTableGet, op == opTableSet:
		r.U32()
	case op == opBrTable:
		for range uint64(r.Count("branch targets", maxBodyBytes)) + 1 {
			r.U32()
		}
	case op == opCallIndirect:
		b.m.typeIndex(r)
		r.U32()
	case op == opSelectTyped:
		r.Bytes(r.Count("types", 1))
	case op == opMemorySize:
		zero(r)
	case op == opI32Const:
		r.SkipLEB(5)
	case op == opI64Const:
		r.SkipLEB(10)
	case op == opF32Const:
		r.Bytes(4)
	case op == opF64Const:
		r.Bytes(8)
	case op == opRefNull:
		r.Byte()
	case op == opPrefixVector:
		vectorImmediates(r)
	default:
		r.Fail("instruction 0x%02x is not supported", op)
	}
}

// index reads the index of a local or global that the module itself has: the
// ones that the rewrite adds are out of its reach.
func (b *body) index(what string, limit uint32) {
	if i := b.r.U32(); i >= limit {
		b.r.Fail("%s %d does not exist", what, i)
	}
}

// misc rewrites an instruction behind opPrefixMisc. Bulk operations have their
// length on top of the stack.
func (b *body) misc(start int) {
	r := b.r
	switch op := r.U32(); op {
	case 0, 1, 2, 3, 4, 5, 6, 7:
	case miscMemoryInit:
		r.U32()
		zero(r)
		b.payLength(bytesPerFuelLog2)
	case miscMemoryCopy:
		zero(r)
		zero(r)
		b.payLength(bytesPerFuelLog2)
	case miscMemoryFill:
		zero(r)
		b.payLength(bytesPerFuelLog2)
	case miscTableInit, miscTableCopy:
		r.U32()
		r.U32()
		b.payLength(elementsPerFuelLog2)
	case miscTableGrow, miscTableFill:
		r.U32()
		b.payLength(elementsPerFuelLog2)
	case miscDataDrop, miscElemDrop, miscTableSize:
		r.U32()
	default:
		r.Fail("instruction 0xfc %d is not supported", op)
	}
	b.copyFrom(start)
}

// paddedBytes is the fixed size of a patched cost: 4 bytes hold 27 bits and
// the sign.
const paddedBytes = 4

// putPadded writes v as a signed LEB128 of paddedBytes bytes.
func putPadded(dst []byte, v uint32) {
	for i := range paddedBytes {
		dst[i] = byte(v>>(7*i)) & 0x7f
		if i < paddedBytes-1 {
			dst[i] |= 0x80
		}
	}
}
