package meter

import (
	"math/bits"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// frameBytes is a call's stack beside its values: the return address, saved registers and
// alignment.
const frameBytes = 128

// smallFrameBytes is the size up to which the frame of a leaf function is not counted: only
// one of them exists at a time.
const smallFrameBytes = 1 << 10

// addressBytes is the address of a memory access: a compiler may keep it for the next one.
const addressBytes = 16

// frame is an upper bound of an engine's frame for one function: its parameters and locals,
// each value made by an instruction (a compiler may keep it until the end), the arguments
// and results of the largest call, and at each join of branches the locals that they may
// have set differently (a compiler makes another value of each, and may keep it).
type frame struct {
	bytes, area uint64
	// again counts pushed values that are not new: locals and constants.
	again uint64
	// wide are the vector locals.
	wide   locals
	blocks []merge
}

// locals is a set of locals, one bit for each. nil is the empty set.
type locals []uint64

// merge is an open block: the locals set in it, and whether branches join at its end, or for
// a loop at its beginning.
type merge struct {
	set   locals
	meets bool
}

func (f *frame) reset(types []wasmbin.ValueType) {
	*f = frame{bytes: frameBytes, wide: f.wide[:0], blocks: f.blocks[:0]}
	for range (len(types) + 63) / 64 {
		f.wide = append(f.wide, 0)
	}
	for i, t := range types {
		f.bytes += wasmbin.SizeOf(t)
		if t == wasmbin.V128 {
			f.wide[i/64] |= 1 << (i % 64)
		}
	}
	f.enter(false)
}

func (f *frame) enter(meets bool) { f.blocks = append(f.blocks, merge{meets: meets}) }

func (f *frame) set(local uint32) {
	b := &f.blocks[len(f.blocks)-1]
	if b.set == nil {
		b.set = make(locals, len(f.wide))
	}
	b.set[local/64] |= 1 << (local % 64)
}

func (f *frame) branch(label uint32) { f.blocks[len(f.blocks)-1-int(label)].meets = true }

// leave closes the innermost block.
func (f *frame) leave() {
	b := f.blocks[len(f.blocks)-1]
	f.blocks = f.blocks[:len(f.blocks)-1]
	if b.set == nil || len(f.blocks) == 0 {
		return
	}
	if b.meets {
		for i, word := range b.set {
			f.bytes += 8 * uint64(bits.OnesCount64(word)+bits.OnesCount64(word&f.wide[i]))
		}
	}
	outer := &f.blocks[len(f.blocks)-1]
	if outer.set == nil {
		outer.set = b.set
		return
	}
	for i, word := range b.set {
		outer.set[i] |= word
	}
}

// value counts the values of an instruction that differ from its pushed ones.
func (f *frame) value(in *wasmbin.Instruction, locals []wasmbin.ValueType) {
	switch in.Op {
	case wasmbin.OpLocalGet, wasmbin.OpLocalTee:
		f.again += wasmbin.SizeOf(locals[in.X])
	case wasmbin.OpI32Const, wasmbin.OpI64Const:
		f.again += wasmbin.SizeOf(wasmbin.I64)
	default:
		if in.Spec.IsMemoryAccess() {
			f.bytes += addressBytes
		}
	}
}

// call counts the arguments and results of a call.
func (f *frame) call(t wasmbin.FuncType) {
	var size uint64
	for _, types := range []string{t.Params, t.Results} {
		for i := range len(types) {
			size += wasmbin.SizeOf(types[i])
		}
	}
	f.area = max(f.area, size)
}
