package wasmbin

// instruction checks the operands and references of one instruction.
func (v *Validator) instruction(in *Instruction) {
	if v.control(in) || v.variable(in) || v.reference(in) {
		return
	}
	v.memory(in)
	v.segment(in)
	v.pop(in.Spec.Params)
	v.push(in.Spec.Results)
}

// control handles branches, and the instructions with operands of any type.
func (v *Validator) control(in *Instruction) bool {
	switch in.Op {
	case OpUnreachable:
		v.unreachable()
	case OpBlock, OpLoop, OpIf:
		v.pop(in.Spec.Params)
		params, results := v.BlockType(in.Type)
		v.pop(params)
		v.enter(in.Op, params, results)
	case OpElse:
		v.otherwise()
	case OpEnd:
		v.end()
	case OpBr:
		v.pop(v.label(in.X))
		v.unreachable()
	case OpBrIf:
		v.pop(i32)
		types := v.label(in.X)
		v.pop(types)
		v.push(types)
	case OpBrTable:
		v.branchTable(in)
	case OpReturn:
		v.pop(v.blocks[0].results)
		v.unreachable()
	case OpCall:
		if v.exists("function", in.X, len(v.module.Functions)) {
			v.call(v.module.Type(in.X))
		}
	case OpCallIndirect:
		v.callIndirect(in)
	default:
		return false
	}
	return true
}

func (v *Validator) otherwise() {
	if v.blocks[len(v.blocks)-1].op != OpIf {
		v.fail("there is no if")
		return
	}
	b := v.leave()
	v.enter(OpElse, b.params, b.results)
}

func (v *Validator) end() {
	b := v.leave()
	if b.op == OpIf && b.params != b.results {
		v.fail("an if without an else has to leave what it takes")
	}
	v.push(b.results)
}

// branchTable checks that all labels take the same number of operands, and that the operands
// fit each.
func (v *Validator) branchTable(in *Instruction) {
	v.pop(i32)
	last := v.label(in.Labels[len(in.Labels)-1])
	top := len(v.operands)
	for _, depth := range in.Labels {
		types := v.label(depth)
		if len(types) != len(last) {
			v.fail("label %d takes %d operands, the default %d", depth, len(types), len(last))
		}
		if v.err != nil {
			return
		}
		v.peek(types, top)
	}
	v.pop(last)
	v.unreachable()
}

// peek checks for operands of these types without removing them.
func (v *Validator) peek(types string, top int) {
	v.look(len(types) + 1)
	b := &v.blocks[len(v.blocks)-1]
	for i := len(types) - 1; i >= 0; i-- {
		if top--; top < b.height {
			if !b.unreachable {
				v.fail("an operand is missing")
			}
			return
		}
		if got := v.operands[top]; got != unknown && got != types[i] {
			v.fail("an operand is of type %s, must be %s", TypeName(got), TypeName(types[i]))
		}
	}
}

func (v *Validator) call(t FuncType) {
	v.pop(t.Params)
	v.push(t.Results)
}

func (v *Validator) callIndirect(in *Instruction) {
	v.tableOf(in.Y, FuncRef)
	if v.exists("type", in.X, len(v.module.Types)) {
		v.pop(i32)
		v.call(v.module.Types[in.X])
	}
}

// variable handles the instructions whose operands have the type of a local or a global.
func (v *Validator) variable(in *Instruction) bool {
	switch in.Op {
	case OpLocalGet, OpLocalSet, OpLocalTee:
		if v.exists("local", in.X, len(v.locals)) {
			v.access(in.Op, v.locals[in.X])
		}
	case OpGlobalGet, OpGlobalSet:
		if v.exists("global", in.X, len(v.module.Globals)) {
			g := &v.module.Globals[in.X]
			if in.Op == OpGlobalSet && !g.Mutable {
				v.fail("global %d cannot be changed", in.X)
			}
			v.access(in.Op, g.Type)
		}
	case OpDrop:
		v.popOne(unknown)
	case OpSelect:
		v.choose(unknown)
	case OpSelectTyped:
		v.choose(in.Type.Value)
	default:
		return false
	}
	return true
}

func (v *Validator) access(op Opcode, t ValueType) {
	if op != OpLocalGet && op != OpGlobalGet {
		v.popOne(t)
	}
	if op != OpLocalSet && op != OpGlobalSet {
		v.pushOne(t)
	}
}

// choose checks a select: without a type it excludes references.
func (v *Validator) choose(want ValueType) {
	v.popOne(I32)
	a := v.popOne(want)
	b := v.popOne(a)
	if a == unknown {
		a = b
	}
	if want == unknown && isRef(a) {
		v.fail("references need a select with a type")
	}
	v.pushOne(a)
}

// reference handles the instructions about references and tables.
func (v *Validator) reference(in *Instruction) bool {
	switch in.Op {
	case OpRefNull:
		v.pushOne(in.Type.Value)
	case OpRefIsNull:
		if t := v.popOne(unknown); t != unknown && !isRef(t) {
			v.fail("an operand is of type %s, must be a reference", TypeName(t))
		}
		v.push(i32)
	case OpRefFunc:
		if v.exists("function", in.X, len(v.module.Functions)) && !v.module.declared[in.X] {
			v.fail("function %d is not declared as one that is referred to", in.X)
		}
		v.pushOne(FuncRef)
	case OpTableGet:
		v.pop(i32)
		v.pushOne(v.table(in.X))
	case OpTableSet:
		v.popOne(v.table(in.X))
		v.pop(i32)
	case OpTableGrow:
		v.pop(i32)
		v.popOne(v.table(in.X))
		v.push(i32)
	case OpTableFill:
		v.pop(i32)
		v.popOne(v.table(in.X))
		v.pop(i32)
	default:
		return false
	}
	return true
}

// table returns the type of a table's elements.
func (v *Validator) table(index uint32) ValueType {
	if !v.exists("table", index, len(v.module.Tables)) {
		return FuncRef
	}
	return v.module.Tables[index].Type
}

func (v *Validator) tableOf(index uint32, want ValueType) {
	if got := v.table(index); got != want {
		v.fail("table %d is of %s, must be of %s", index, TypeName(got), TypeName(want))
	}
}

// memory checks that an instruction's memory exists.
func (v *Validator) memory(in *Instruction) {
	switch in.Spec.Imm {
	case immMemory, immMemoryLane, immZero, immZeroZero, immDataMemory:
		if len(v.module.Memories) == 0 {
			v.fail("the module has no memory")
		}
	}
}

// segment checks an instruction's references to segments and tables.
func (v *Validator) segment(in *Instruction) {
	m := v.module
	switch in.Op {
	case OpMemoryInit, OpDataDrop:
		if m.DataCount == nil {
			v.fail("the module has no data count section")
		} else {
			v.exists("data segment", in.X, int(*m.DataCount))
		}
	case OpTableInit:
		if v.exists("element segment", in.X, len(m.Elements)) {
			v.tableOf(in.Y, m.Elements[in.X].Type)
		}
	case OpElemDrop:
		v.exists("element segment", in.X, len(m.Elements))
	case OpTableCopy:
		v.tableOf(in.X, v.table(in.Y))
	case OpTableSize:
		v.table(in.X)
	}
}

// Invariant M20 (host/SECURITY.md): n is the original module's count, so the meter's additions
// have no index there.
func (v *Validator) exists(what string, index uint32, n int) bool {
	if uint64(index) >= uint64(n) {
		v.fail("%s %d does not exist", what, index)
		return false
	}
	return true
}
