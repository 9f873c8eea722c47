package wasmbin

import (
	"math"
)

func (p *parser) types(r *Reader) {
	n := r.Count("types", MaxTypes)
	p.module.Types = make([]FuncType, 0, n)
	values := 0
	for range n {
		if form := r.Byte(); form != typeFunc {
			r.Fail("type form 0x%02x is not that of a function", form)
		}
		t := FuncType{Params: valueTypes(r), Results: valueTypes(r)}
		if values += len(t.Params) + len(t.Results); values > MaxTypeValues {
			r.Fail("more than %d parameters and results in all types", MaxTypeValues)
		}
		if r.Err != nil {
			return
		}
		p.module.Types = append(p.module.Types, t)
	}
}

// typeFunc is the form of function types.
const typeFunc = 0x60

func valueTypes(r *Reader) string {
	n := r.Count("parameters or results", MaxParams)
	start := r.Pos
	for range n {
		r.ValueType()
	}
	return string(r.Data[start:r.Pos])
}

// typeIndex reads the index of a type.
func (p *parser) typeIndex(r *Reader) uint32 {
	index := r.U32()
	if index >= uint32(len(p.module.Types)) {
		r.Fail("type %d does not exist", index)
	}
	return index
}

func (p *parser) functionIndex(r *Reader) uint32 {
	index := r.U32()
	if uint64(index) >= uint64(len(p.module.Functions)) {
		r.Fail("function %d does not exist", index)
	}
	return index
}

func (p *parser) imports(r *Reader) {
	m := p.module
	for range r.Count("imports", MaxImports) {
		i := Import{Module: r.Name(), Name: r.Name(), Kind: Kind(r.Byte())}
		if len(i.Module) == 0 { // valid, but not for every engine
			r.Fail("import %.80q is from a module without a name", i.Name)
		}
		switch i.Kind {
		case KindFunc:
			i.Type = p.typeIndex(r)
			m.Functions = append(m.Functions, i.Type)
			m.ImportedFunctions++
		case KindTable:
			m.Tables = append(m.Tables, Table{r.RefType(), limits(r, math.MaxUint32)})
		case KindMemory:
			m.Memories = append(m.Memories, limits(r, MaxMemoryPages))
		case KindGlobal:
			t, mutable := globalType(r)
			m.Globals = append(m.Globals, Global{Type: t, Mutable: mutable})
			m.ImportedGlobals++
		default:
			r.Fail("import %.80q.%.80q is of the unknown %s", i.Module, i.Name, i.Kind)
		}
		if r.Err != nil {
			return
		}
		m.Imports = append(m.Imports, i)
	}
}

func limits(r *Reader, most uint32) Limits {
	var l Limits
	switch flags := r.Byte(); flags {
	case 0:
		l.Min = r.U32()
	case 1:
		l = Limits{Min: r.U32(), Max: r.U32(), HasMax: true}
	default:
		r.Fail("limits with flags 0x%02x (shared or 64 bit) are not supported", flags)
	}
	if l.HasMax && l.Max < l.Min {
		r.Fail("a maximum of %d is below its minimum of %d", l.Max, l.Min)
	}
	if l.Min > most || l.Max > most {
		r.Fail("limits of %d and %d, at most %d are possible", l.Min, l.Max, most)
	}
	return l
}

func (p *parser) tables(r *Reader) {
	for range r.Count("tables", MaxTables) {
		p.module.Tables = append(p.module.Tables, Table{r.RefType(), limits(r, math.MaxUint32)})
	}
}

func globalType(r *Reader) (t ValueType, mutable bool) {
	t = r.ValueType()
	flag := r.Byte()
	if flag > 1 {
		r.Fail("mutability 0x%02x is neither 0 nor 1", flag)
	}
	return t, flag == 1
}

func (p *parser) globals(r *Reader) {
	for range r.Count("globals", MaxGlobals) {
		t, mutable := globalType(r)
		init := p.constant(r, t)
		if r.Err != nil {
			return
		}
		p.module.Globals = append(p.module.Globals, Global{t, mutable, init})
	}
}

// constant reads a constant expression: one instruction. It may name imported globals only:
// no others have a value yet.
func (p *parser) constant(r *Reader, want ValueType) *Instruction {
	in := &Instruction{}
	r.Instruction(in)
	if r.Err != nil {
		return in
	}
	got := ValueType(0)
	switch in.Op {
	case OpI32Const, OpI64Const, OpF32Const, OpF64Const, OpV128Const:
		got = in.Spec.Results[0]
	case OpRefNull:
		got = in.Type.Value
	case OpRefFunc:
		got = FuncRef
		p.declare(r, in.X)
	case OpGlobalGet:
		got = p.constantGlobal(r, in.X)
	default:
		r.Fail("instruction %s is not allowed in a constant expression", in.Spec.Name)
	}
	if got != want {
		r.Fail("a constant expression is of type %s, must be %s", TypeName(got), TypeName(want))
	}
	if end := r.Byte(); Opcode(end) != OpEnd {
		r.Fail("a constant expression is more than one instruction")
	}
	return in
}

func (p *parser) constantGlobal(r *Reader, index uint32) ValueType {
	m := p.module
	if index >= m.ImportedGlobals || m.Globals[index].Mutable {
		r.Fail("a constant expression reads global %d, which is not imported or not constant", index)
		return 0
	}
	return m.Globals[index].Type
}

// declare allows instructions to refer to a function.
func (p *parser) declare(r *Reader, index uint32) {
	if uint64(index) >= uint64(len(p.module.Functions)) {
		r.Fail("function %d does not exist", index)
		return
	}
	p.module.declared[index] = true
}

func (p *parser) exports(r *Reader) {
	m := p.module
	names := map[string]bool{}
	for range r.Count("exports", MaxExports) {
		e := Export{Name: r.Name(), Kind: Kind(r.Byte()), Index: r.U32()}
		var n int
		switch e.Kind {
		case KindFunc:
			n = len(m.Functions)
			m.declared[e.Index] = true
		case KindTable:
			n = len(m.Tables)
		case KindMemory:
			n = len(m.Memories)
		case KindGlobal:
			n = len(m.Globals)
		}
		if uint64(e.Index) >= uint64(n) {
			r.Fail("export %.80q is %s %d, which does not exist", e.Name, e.Kind, e.Index)
		}
		if names[string(e.Name)] {
			r.Fail("two exports are called %.80q", e.Name)
		}
		if r.Err != nil {
			return
		}
		names[string(e.Name)] = true
		m.Exports = append(m.Exports, e)
	}
}

func (p *parser) bodies(r *Reader) {
	m := p.module
	n := r.Count("function bodies", MaxFunctions)
	m.Bodies = make([]Body, 0, n)
	for i := range n {
		size := r.U32()
		if size > MaxBodyBytes {
			r.Fail("the body of function %d has %d bytes, at most %d are allowed; split the function", i, size, MaxBodyBytes)
		}
		index := uint64(m.ImportedFunctions) + uint64(i)
		if r.Err != nil || index >= uint64(len(m.Functions)) {
			r.Fail("more bodies than functions")
			return
		}
		base := r.Base + r.Pos
		m.Bodies = append(m.Bodies, Body{Base: base, Data: r.Bytes(size)})
	}
}
