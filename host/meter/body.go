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
	// added when the function has an operation that costs by its length.
	locals  uint32
	scratch bool
	// instructions counts all of them, and nests says that one is a call of a
	// function of the module.
	instructions uint32
	nests        bool
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

func (m *rewriter) body(content []byte, s signature) ([]byte, error) {
	b := &body{m: m, r: &wasmbin.Reader{Data: content}, locals: s.params}
	groups, declared := b.declaredLocals()
	b.out = make([]byte, 0, len(content)*3/2+64)
	b.blocks = append(b.blocks, 0)
	b.charge()
	start := len(b.out)
	for len(b.blocks) > 0 && b.r.Err == nil {
		b.instruction()
	}
	if err := b.r.Done("code"); err != nil {
		return nil, err
	}
	for _, c := range b.charges {
		putPadded(b.out[c.at:], c.cost)
	}
	if b.scratch {
		groups++
		declared = append(slices.Clone(declared), 1, typeI32)
	}
	head := append(wasmbin.AppendU32(nil, groups), declared...)
	if !b.nests {
		return append(head, b.out...), nil
	}
	return slices.Concat(head, b.out[:start], b.descend(s), b.out[start:], b.ascend()), nil
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

// charge begins what is paid for here: the function, a loop, or the rest of a
// long run. Operands on the stack stay there.
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

// appendPay takes the cost that lies on the stack, above the fuel, and asks
// the host when the fuel is used up.
func (m *rewriter) appendPay(out []byte) []byte {
	out = append(out, opI64Sub)
	out = appendIndexed(out, opGlobalSet, m.fuel)
	out = appendIndexed(out, opGlobalGet, m.fuel)
	out = append(out, opI64Const, 0, opI64LtS, opIf, blockVoid)
	out = appendIndexed(out, opGlobalGet, m.fuel)
	out = appendIndexed(out, opCall, m.importedFuncs)
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

// descend counts a call that nests, and ends the guest when it is one too
// many. The block that it opens is left by every way out of the function:
// its label takes the place of the function's own.
func (b *body) descend(s signature) []byte {
	out := b.m.appendMove(nil, b.weight(), opI32Sub)
	out = appendIndexed(out, opGlobalGet, b.m.fuel+1)
	out = append(out, opI32Const, 0, opI32LtS, opIf, blockVoid, opI64Const)
	// -2^63 as a signed LEB128.
	out = append(out, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f)
	out = appendIndexed(out, opCall, b.m.importedFuncs)
	out = append(out, opDrop, opUnreachable, opEnd, opBlock)
	return append(out, s.block...)
}

// ascend follows the end of the block of descend.
func (b *body) ascend() []byte { return append(b.m.appendMove(nil, b.weight(), opI32Add), opEnd) }

func (b *body) weight() uint32 { return 1 + (b.locals+b.instructions)/slotsPerDepth }

// appendMove adds to the depth that is left, or subtracts from it.
func (m *rewriter) appendMove(out []byte, weight uint32, op byte) []byte {
	out = appendIndexed(out, opGlobalGet, m.fuel+1)
	out = append(appendI32Const(out, weight), op)
	return appendIndexed(out, opGlobalSet, m.fuel+1)
}

func appendIndexed(out []byte, op byte, index uint32) []byte {
	return wasmbin.AppendU32(append(out, op), index)
}

// appendI32Const appends an i32.const of a number below 2^31.
func appendI32Const(out []byte, v uint32) []byte { return appendS33(append(out, opI32Const), v) }

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
