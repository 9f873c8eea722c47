package meter

import (
	"math/bits"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// frameBytes is what a call takes beside the values: the return address, saved
// registers and alignment.
const frameBytes = 128

// smallFrameBytes is the size of a frame that is not counted in a function that
// calls none of the module's: there is one of them at a time.
const smallFrameBytes = 1 << 10

// addressBytes is for what a memory access computes: a compiler may keep the
// address for the next one.
const addressBytes = 16

// frame is an upper bound of what an engine's frame of one function holds: its
// parameters and locals, each value that an instruction makes (a compiler may
// keep it until the end), the arguments and results of the largest call, and
// where branches meet, the locals that they may have set in different ways (a
// compiler makes one more value of each, which it may keep as well).
type frame struct {
	bytes, area uint64
	// again is what was put on the stack but is no new value: locals and
	// constants.
	again uint64
	// wide are the locals that are vectors.
	wide   locals
	blocks []merge
}

// locals is a set of them, one bit for each. nil is the empty set.
type locals []uint64

// merge is an open block: the locals that were set in it, and whether branches
// meet at its end, or at its beginning if it is a loop.
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

// value takes into account that an instruction makes other values than it puts
// on the stack.
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

// call takes the arguments and results of a call into account.
func (f *frame) call(t wasmbin.FuncType) {
	var size uint64
	for _, types := range []string{t.Params, t.Results} {
		for i := range len(types) {
			size += wasmbin.SizeOf(types[i])
		}
	}
	f.area = max(f.area, size)
}
