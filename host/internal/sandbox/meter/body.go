package meter

import (
	"fmt"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// body rewrites the function bodies, one at a time.
type body struct {
	m   *rewriter
	r   *wasmbin.Reader
	in  wasmbin.Instruction
	out []byte
	// locals counts parameters and declared locals. One more, of type i32, is added if the
	// function has an operation whose cost depends on its length.
	locals   uint32
	declared []wasmbin.Locals
	scratch  bool
	// nests: the function calls functions of the module, or is not small. frame is the stack of
	// one call.
	nests bool
	frame frame
	// charges are the places where a constant cost is patched in, the first for the function
	// itself, and one for each loop. current is the place that instructions count for, blocks
	// the places of the enclosing blocks.
	charges []charge
	current int
	blocks  []int
}

type charge struct {
	at   int
	cost uint32
}

// write rewrites body i into the module.
func (b *body) write(i uint32) error {
	m := b.m
	index := m.module.ImportedFunctions + i
	b.enter(i)
	for m.validator.Depth() > 0 && b.r.Err == nil {
		b.instruction()
		if err := m.fits(len(b.out)); err != nil {
			return fmt.Errorf("function %d: %w", index, err)
		}
	}
	if err := b.r.Done("code"); err != nil {
		return fmt.Errorf("function %d: %w", index, err)
	}
	for _, c := range b.charges {
		putPadded(b.out[c.at:], c.cost)
	}
	frame := b.frameBytes()
	b.nests = b.nests || frame > smallFrameBytes
	b.finish(m.blocks[m.module.Functions[index]], uint32(min(frame, maxStackBytes)))
	return nil
}

// frameBytes is the stack of a call, once the whole function was read.
func (b *body) frameBytes() uint64 {
	return b.frame.bytes + b.m.validator.Pushed() - b.frame.again + b.frame.area
}

func (b *body) enter(i uint32) {
	v := b.m.validator
	r, declared := v.Enter(i, b.declared)
	*b = body{
		m: b.m, r: r, in: b.in, out: b.out[:0], declared: declared, locals: uint32(len(v.Locals())),
		frame: b.frame, charges: b.charges[:0], blocks: append(b.blocks[:0], 0),
	}
	b.frame.reset(v.Locals())
	b.charge()
}

// finish writes the size of the body, its locals and its code.
func (b *body) finish(block wasmbin.BlockType, frame uint32) {
	if b.scratch {
		b.declared = append(b.declared, wasmbin.Locals{Count: 1, Type: wasmbin.I32})
	}
	head := wasmbin.AppendU32(nil, uint32(len(b.declared)))
	for _, l := range b.declared {
		head = append(wasmbin.AppendU32(head, l.Count), l.Type)
	}
	var tail []byte
	if b.nests {
		// The first charge precedes the block of descend.
		start := b.charges[0].at + paddedBytes + len(b.m.appendPay(nil))
		head = append(head, b.out[:start]...)
		b.out = b.out[start:]
		head, tail = b.descend(head, block, frame), b.ascend(frame)
	}
	b.m.u32(uint32(len(head) + len(b.out) + len(tail)))
	b.m.bytes(head...)
	b.m.bytes(b.out...)
	b.m.bytes(tail...)
}

// charge begins a place of payment: the function, a loop, or the rest of a long run.
// Operands on the stack stay there.
//
// Invariant M1 (host/SECURITY.md): every function and every turn of a loop begins with it.
func (b *body) charge() {
	b.blocks[len(b.blocks)-1] = len(b.charges)
	b.current = len(b.charges)
	b.global(opGlobalGet, b.m.fuel)
	b.out = append(b.out, opI64Const)
	b.charges = append(b.charges, charge{at: len(b.out), cost: 1})
	b.out = append(b.out, make([]byte, paddedBytes)...)
	b.pay()
}

func (b *body) pay() { b.out = b.m.appendPay(b.out) }

// appendPay subtracts the cost on top of the stack from the fuel below it, and asks the host
// when the fuel is used up.
func (m *rewriter) appendPay(out []byte) []byte {
	out = append(out, opI64Sub)
	out = appendIndexed(out, opGlobalSet, m.fuel)
	out = appendIndexed(out, opGlobalGet, m.fuel)
	out = append(out, opI64Const, 0, opI64LtS, opIf, blockVoid)
	out = appendIndexed(out, opGlobalGet, m.fuel)
	out = appendIndexed(out, opCall, m.module.ImportedFunctions)
	out = appendIndexed(out, opGlobalSet, m.fuel)
	return append(out, opEnd)
}

// payLength charges for the i32 on top of the stack, which stays there.
func (b *body) payLength(unitsLog2 byte, shift byte) {
	b.scratch = true
	b.out = appendIndexed(b.out, opLocalTee, b.locals)
	b.global(opGlobalGet, b.m.fuel)
	b.out = appendIndexed(b.out, opLocalGet, b.locals)
	b.out = append(b.out, opI64ExtendI32, opI64Const, unitsLog2, shift)
	b.pay()
}

func (b *body) global(op byte, index uint32) { b.out = appendIndexed(b.out, op, index) }

// descend subtracts the frame of a nesting function from the remaining stack, and ends the
// guest if that is too small. It opens a block through which every exit of the function
// leaves: its label replaces the function's own.
func (b *body) descend(out []byte, block wasmbin.BlockType, frame uint32) []byte {
	// Invariant M2 (host/SECURITY.md): a call pays for its frame before the function's code runs,
	// and the guest ends if the stack is too small.
	out = b.m.appendMove(out, frame, opI32Sub)
	out = appendIndexed(out, opGlobalGet, b.m.fuel+1)
	out = append(out, opI32Const, 0, opI32LtS, opIf, blockVoid)
	out = wasmbin.AppendSigned(append(out, opI64Const), FuelCallDepth)
	out = appendIndexed(out, opCall, b.m.module.ImportedFunctions)
	out = append(out, opDrop, opUnreachable, opEnd, opBlock)
	return block.Append(out)
}

// ascend follows the end of descend's block.
func (b *body) ascend(frame uint32) []byte {
	return append(b.m.appendMove(nil, frame, opI32Add), opEnd)
}

// appendMove adds to the remaining stack, or subtracts from it.
func (m *rewriter) appendMove(out []byte, frame uint32, op byte) []byte {
	out = appendIndexed(out, opGlobalGet, m.fuel+1)
	out = append(appendI32Const(out, frame), op)
	return appendIndexed(out, opGlobalSet, m.fuel+1)
}

func appendIndexed(out []byte, op byte, index uint32) []byte {
	return wasmbin.AppendU32(append(out, op), index)
}

// appendI32Const appends an i32.const of a number below 2^31.
func appendI32Const(out []byte, v uint32) []byte {
	return wasmbin.AppendSigned(append(out, opI32Const), int64(v))
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
