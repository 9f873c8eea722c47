package wasmbin

// Mode is a segment's fate when the module is instantiated.
type Mode byte

// The modes of segments.
const (
	Active      Mode = iota // copied to where it says
	Passive                 // copied by instructions
	Declarative             // of elements: declares functions
)

// Element is a segment of references for tables. Table and Offset belong to
// active ones.
type Element struct {
	Mode   Mode
	Type   ValueType
	Table  uint32
	Offset *Instruction
	// Functions are the segment's contents, or Init for expressions.
	Functions []uint32
	Init      []*Instruction
}

// Data is a segment of bytes for the memory. Offset belongs to active ones.
type Data struct {
	Mode   Mode
	Offset *Instruction
	Init   []byte
}

// Flags of element segments.
const (
	elementNotActive   = 1
	elementExplicit    = 2 // with a table, or declarative
	elementExpressions = 4
)

func (p *parser) elementSegments(r *Reader) {
	for range r.Count("element segments", maxElemSegments) {
		e := p.element(r)
		if r.Err != nil {
			return
		}
		p.module.Elements = append(p.module.Elements, e)
	}
}

func (p *parser) element(r *Reader) Element {
	flags := r.ShortU32("flag of an element segment")
	if flags > 7 {
		r.Fail("element segment with flags %d is not supported", flags)
	}
	e := Element{Type: FuncRef, Mode: Active}
	switch {
	case flags&elementNotActive == 0:
		if flags&elementExplicit != 0 {
			e.Table = r.U32()
		}
		e.Offset = p.constant(r, I32)
	case flags&elementExplicit != 0:
		e.Mode = Declarative
	default:
		e.Mode = Passive
	}
	if flags&(elementNotActive|elementExplicit) != 0 {
		e.Type = elementType(r, flags&elementExpressions != 0)
	}
	if e.Mode == Active && r.Err == nil {
		p.checkTable(r, e.Table, e.Type)
	}
	p.references(r, &e, flags&elementExpressions != 0)
	return e
}

// elementType reads a reference type, or the kind 0, which means functions.
func elementType(r *Reader, expressions bool) ValueType {
	if expressions {
		return r.RefType()
	}
	if kind := r.Byte(); kind != 0 {
		r.Fail("elements of kind 0x%02x are not supported", kind)
	}
	return FuncRef
}

func (p *parser) checkTable(r *Reader, index uint32, want ValueType) {
	tables := p.module.Tables
	if uint64(index) >= uint64(len(tables)) {
		r.Fail("table %d does not exist", index)
		return
	}
	if got := tables[index].Type; got != want {
		r.Fail("table %d is of %s, the segment of %s", index, TypeName(got), TypeName(want))
	}
}

func (p *parser) references(r *Reader, e *Element, expressions bool) {
	n := r.Count("elements", MaxElements)
	if p.elements += n; p.elements > MaxElements {
		r.Fail("more than %d elements in all segments", MaxElements)
	}
	for range n {
		if r.Err != nil {
			return
		}
		if expressions {
			e.Init = append(e.Init, p.constant(r, e.Type))
			continue
		}
		index := r.U32()
		p.declare(r, index)
		e.Functions = append(e.Functions, index)
	}
}

// dataSegments reads data segments. Engines allocate a segment's declared size before they
// check for its bytes, so twenty bytes could ask for gigabytes.
func (p *parser) dataSegments(r *Reader) {
	m := p.module
	for range r.Count("data segments", maxDataSegments) {
		d := Data{}
		switch flags := r.ShortU32("flag of a data segment"); flags {
		case 0:
			d.Offset = p.constant(r, I32)
		case 1:
			d.Mode = Passive
		case 2: // with a memory's number
			r.zero()
			d.Offset = p.constant(r, I32)
		default:
			r.Fail("data segment with flags %d is not supported", flags)
		}
		if d.Mode == Active && len(m.Memories) == 0 {
			r.Fail("a data segment for a memory, but there is none")
		}
		d.Init = r.Bytes(r.U32())
		if r.Err != nil {
			return
		}
		m.Data = append(m.Data, d)
	}
}
