package meter

import (
	"slices"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// chunkBytes is the largest single memory.copy or memory.fill: a millisecond on a slow
// machine, with only new pages.
const (
	chunkBytesLog2 = 20
	chunkBytes     = 1 << chunkBytesLog2
)

// Functions (i32 i32 i32) -> () replace memory.copy and memory.fill. Their locals: copy(to,
// from, n) and fill(to, value, n).
const (
	localTo   = 0
	localFrom = 1
	localN    = 2
)

// copyBody is memory.copy in chunks. An operation that is out of bounds is left
// to the instruction, which traps before it has moved anything.
//
//	block $rest
//	  br_if $rest (n <= chunk)
//	  br_if $rest (to + n > memory.size)
//	  br_if $rest (from + n > memory.size)
//	  if (to > from)         ;; they may overlap: from the end
//	    loop { pay; n -= chunk; memory.copy(to + n, from + n, chunk); br_if (n > chunk) }
//	  else
//	    loop { pay; memory.copy(to, from, chunk); to += chunk; from += chunk; n -= chunk; br_if (n > chunk) }
//	  end
//	end
//	pay; memory.copy(to, from, n)
func copyBody(m *rewriter) []byte {
	memoryCopy := []byte{opPrefixMisc, miscMemoryCopy, 0, 0}
	toPlusN := []byte{opLocalGet, localTo, opLocalGet, localN, opI32Add}
	fromPlusN := []byte{opLocalGet, localFrom, opLocalGet, localN, opI32Add}
	return slices.Concat(
		[]byte{0, opBlock, blockVoid},
		short(opI32LeU), []byte{opBrIf, 0},
		beyond(localTo), []byte{opBrIf, 0},
		beyond(localFrom), []byte{opBrIf, 0},
		[]byte{opLocalGet, localTo, opLocalGet, localFrom, opI32GtU, opIf, blockVoid, opLoop, blockVoid},
		m.payChunk(), step(localN, opI32Sub),
		toPlusN, fromPlusN, chunk(), memoryCopy,
		short(opI32GtU), []byte{opBrIf, 0, opEnd, opElse, opLoop, blockVoid},
		m.payChunk(), []byte{opLocalGet, localTo, opLocalGet, localFrom}, chunk(), memoryCopy,
		step(localTo, opI32Add), step(localFrom, opI32Add), step(localN, opI32Sub),
		short(opI32GtU), []byte{opBrIf, 0, opEnd, opEnd, opEnd},
		m.payRest(), memoryCopy, []byte{opEnd},
	)
}

// fillBody is memory.fill in chunks, as copyBody.
func fillBody(m *rewriter) []byte {
	memoryFill := []byte{opPrefixMisc, miscMemoryFill, 0}
	return slices.Concat(
		[]byte{0, opBlock, blockVoid},
		short(opI32LeU), []byte{opBrIf, 0},
		beyond(localTo), []byte{opBrIf, 0, opLoop, blockVoid},
		m.payChunk(), []byte{opLocalGet, localTo, opLocalGet, localFrom}, chunk(), memoryFill,
		step(localTo, opI32Add), step(localN, opI32Sub),
		short(opI32GtU), []byte{opBrIf, 0, opEnd, opEnd},
		m.payRest(), memoryFill, []byte{opEnd},
	)
}

func chunk() []byte { return appendI32Const(nil, chunkBytes) }

// short compares n with a chunk.
func short(compare byte) []byte {
	return slices.Concat([]byte{opLocalGet, localN}, chunk(), []byte{compare})
}

// step moves a local by a chunk.
func step(local, op byte) []byte {
	return slices.Concat([]byte{opLocalGet, local}, chunk(), []byte{op, opLocalSet, local})
}

// beyond reports whether n bytes from a local on exceed the memory.
func beyond(local byte) []byte {
	return []byte{
		opLocalGet, local, opI64ExtendI32, opLocalGet, localN, opI64ExtendI32, opI64Add,
		opMemorySize, 0, opI64ExtendI32, opI64Const, 16, opI64Shl, opI64GtU,
	}
}

// payChunk pays for one chunk.
func (m *rewriter) payChunk() []byte {
	out := appendIndexed(nil, opGlobalGet, m.fuel)
	return m.appendPay(wasmbin.AppendSigned(append(out, opI64Const), chunkBytes>>bytesPerFuelLog2))
}

// payRest pays for n bytes and one call, and leaves the three parameters on
// the stack.
func (m *rewriter) payRest() []byte {
	out := appendIndexed(nil, opGlobalGet, m.fuel)
	out = append(out, opLocalGet, localN, opI64ExtendI32, opI64Const, bytesPerFuelLog2, opI64ShrU)
	out = append(out, opI64Const, 2*costMemory, opI64Add)
	return append(m.appendPay(out), opLocalGet, localTo, opLocalGet, localFrom, opLocalGet, localN)
}
