package meter

// instruction rewrites the next instruction.
func (b *body) instruction() {
	if b.charges[b.current].cost >= maxRun {
		b.charge()
	}
	start := b.r.Pos
	b.instructions++
	b.costs(1)
	op := b.r.Byte()
	switch op {
	case opCall:
		b.call()
		return
	case opRefFunc:
		b.out = appendIndexed(b.out, op, b.m.functionIndex(b.r))
		return
	case opReturn:
		// A branch out of the function, by way of the block of descend.
		b.out = appendIndexed(b.out, opBr, uint32(len(b.blocks)-1))
		return
	case opPrefixMisc:
		b.misc(start)
		return
	case opMemoryGrow:
		zero(b.r)
		b.costs(costHost)
		b.payLength(fuelPerPageLog2, opI64Shl)
	case opBlock, opIf:
		b.blockType()
		b.blocks = append(b.blocks, b.current)
	case opLoop:
		b.blockType()
		b.copyFrom(start)
		b.blocks = append(b.blocks, b.current)
		b.charge()
		return
	case opElse:
		b.copyFrom(start)
		b.otherwise()
		return
	case opEnd:
		b.leave()
	default:
		b.immediates(op)
	}
	b.copyFrom(start)
}

// costs adds to what is paid at the current place.
func (b *body) costs(units uint32) { b.charges[b.current].cost += units }

func (b *body) copyFrom(start int) { b.out = append(b.out, b.r.Data[start:b.r.Pos]...) }

func (b *body) call() {
	index := b.m.functionIndex(b.r)
	if index < b.m.importedFuncs {
		b.costs(costHost)
	} else {
		b.nests = true
	}
	b.out = appendIndexed(b.out, opCall, index)
}

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

// otherwise begins the other branch of an if. What the first one has paid in
// its middle has not been paid for this one.
func (b *body) otherwise() {
	top := len(b.blocks) - 1
	if top > 0 && b.blocks[top] != b.blocks[top-1] {
		b.charge()
	}
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
		b.costs(costMemory - 1)
		memoryAccess(r)
	case op >= opLocalGet && op <= opLocalTee:
		b.index("local", b.locals)
	case op == opGlobalGet, op == opGlobalSet:
		b.index("global", b.m.fuel)
	case op == opBr, op == opBrIf:
		b.label()
	case op == opTableGet, op == opTableSet:
		b.costs(costMemory - 1)
		r.U32()
	case op == opBrTable:
		for range uint64(r.Count("branch targets", maxBodyBytes)) + 1 {
			b.label()
		}
	case op == opCallIndirect:
		b.nests = true
		b.costs(2*costMemory - 1)
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
		b.costs(costMemory - 1)
		vectorImmediates(r)
	default:
		r.Fail("instruction 0x%02x is not supported", op)
	}
}

// label reads how many blocks a branch leaves. The function is the outermost.
func (b *body) label() {
	if depth := b.r.U32(); uint64(depth) >= uint64(len(b.blocks)) {
		b.r.Fail("label %d does not exist", depth)
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
		b.payLength(bytesPerFuelLog2, opI64ShrU)
	case miscMemoryCopy:
		zero(r)
		zero(r)
		b.out = appendIndexed(b.out, opCall, b.m.bulkFunction(&b.m.bulk.copies, copyBody))
		return
	case miscMemoryFill:
		zero(r)
		b.out = appendIndexed(b.out, opCall, b.m.bulkFunction(&b.m.bulk.fills, fillBody))
		return
	case miscTableInit, miscTableCopy:
		r.U32()
		r.U32()
		b.payLength(elementsPerFuelLog2, opI64ShrU)
	case miscTableGrow:
		r.U32()
		b.costs(costHost)
		b.payLength(elementsPerFuelLog2, opI64ShrU)
	case miscTableFill:
		r.U32()
		b.payLength(elementsPerFuelLog2, opI64ShrU)
	case miscDataDrop, miscElemDrop, miscTableSize:
		r.U32()
	default:
		r.Fail("instruction 0xfc %d is not supported", op)
	}
	b.copyFrom(start)
}
