package meter

import "github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"

// instruction rewrites the next instruction.
func (b *body) instruction() {
	if b.charges[b.current].cost >= maxRun {
		b.charge()
	}
	start, in := b.r.Pos, &b.in
	b.r.Instruction(in)
	if b.r.Err != nil {
		return
	}
	if err := b.m.validator.Next(in); err != nil {
		b.r.Pos = start
		b.r.Fail("%w", err)
		return
	}
	b.costs(1)
	b.frame.value(in, b.m.validator.Locals())
	b.m.hidden = b.m.hidden || hides(in.Op)
	switch in.Op {
	// Invariant M21 (host/SECURITY.md): no function makes references to functions.
	case wasmbin.OpRefFunc:
		b.r.Pos = start
		b.r.Fail("ref.func in a function is not supported, since an engine keeps what it makes each time; use a table")
	case wasmbin.OpBlock, wasmbin.OpIf, wasmbin.OpLoop, wasmbin.OpElse, wasmbin.OpEnd:
		b.structure()
	case wasmbin.OpBr, wasmbin.OpBrIf, wasmbin.OpBrTable, wasmbin.OpReturn:
		b.branch()
	case wasmbin.OpCall, wasmbin.OpCallIndirect:
		b.call()
	case wasmbin.OpMemoryCopy, wasmbin.OpMemoryFill:
		b.bulk()
	default:
		b.other()
	}
}

// costs adds to the cost of the current place.
func (b *body) costs(units uint32) { b.charges[b.current].cost += units }

// keep writes the instruction unchanged.
//
// Invariant M6 (host/SECURITY.md): additions around an instruction preserve its operands,
// locals, memory and labels.
func (b *body) keep() { b.out = b.in.Append(b.out) }

// structure rewrites the instructions that open and close blocks. Each turn of a loop is
// paid for.
func (b *body) structure() {
	b.keep()
	switch b.in.Op {
	case wasmbin.OpBlock, wasmbin.OpIf:
		b.blocks = append(b.blocks, b.current)
		b.frame.enter(b.in.Op == wasmbin.OpIf)
	case wasmbin.OpLoop:
		b.blocks = append(b.blocks, b.current)
		b.frame.enter(false)
		b.charge()
	case wasmbin.OpElse:
		b.otherwise()
	case wasmbin.OpEnd:
		b.frame.leave()
		b.blocks = b.blocks[:len(b.blocks)-1]
		if n := len(b.blocks); n > 0 {
			b.current = b.blocks[n-1]
		}
	}
}

// otherwise begins the else branch. A payment in the middle of the first branch does not
// cover this one.
func (b *body) otherwise() {
	top := len(b.blocks) - 1
	if top > 0 && b.blocks[top] != b.blocks[top-1] {
		b.charge()
	}
}

// branch keeps a branch, and turns a return into one, through descend's block.
func (b *body) branch() {
	in := &b.in
	switch in.Op {
	case wasmbin.OpReturn:
		b.out = appendIndexed(b.out, opBr, uint32(len(b.blocks)-1))
		return
	case wasmbin.OpBrTable:
		for _, label := range in.Labels {
			b.frame.branch(label)
		}
		b.costs(uint32(len(in.Labels)) / labelsPerFuel)
	default:
		b.frame.branch(in.X)
	}
	b.keep()
}

// labelsPerFuel: a branch with many targets is an indexed jump, not a sequence of tests.
const labelsPerFuel = 1 << 10

func (b *body) call() {
	in, module := &b.in, b.m.module
	if in.Op == wasmbin.OpCallIndirect {
		b.nests = true
		b.costs(2*costMemory - 1)
		b.frame.call(module.Types[in.X])
		b.keep()
		return
	}
	if in.X < module.ImportedFunctions {
		b.costs(costHost)
	} else {
		b.nests = true
	}
	b.frame.call(module.Type(in.X))
	b.out = appendIndexed(b.out, opCall, b.m.moved(in.X))
}

// bulk calls a function in place of an operation that may take long.
func (b *body) bulk() {
	index := b.m.copies
	if b.in.Op == wasmbin.OpMemoryFill {
		index = b.m.fills
	}
	b.out = appendIndexed(b.out, opCall, index)
}

// other keeps an instruction, and charges for those that cost more than one unit. Bulk
// operations have their length on top of the stack.
func (b *body) other() {
	switch in := &b.in; in.Op {
	case wasmbin.OpLocalSet, wasmbin.OpLocalTee:
		b.frame.set(in.X)
	case wasmbin.OpMemoryGrow:
		b.costs(costHost)
		b.payLength(fuelPerPageLog2, opI64Shl)
	case wasmbin.OpTableGet, wasmbin.OpTableSet:
		b.costs(costMemory - 1)
	case wasmbin.OpMemoryInit:
		b.costs(costCall)
		b.payLength(bytesPerFuelLog2, opI64ShrU)
	case wasmbin.OpTableGrow:
		b.costs(costHost)
		b.payLength(elementsPerFuelLog2, opI64ShrU)
	case wasmbin.OpTableInit, wasmbin.OpTableCopy, wasmbin.OpTableFill:
		b.costs(costCall)
		b.payLength(elementsPerFuelLog2, opI64ShrU)
	default:
		if in.Spec.IsMemoryAccess() || in.Op.IsVector() {
			b.costs(costMemory - 1)
		}
	}
	b.keep()
}
