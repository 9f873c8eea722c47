package differential_test

import (
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// token is a piece of a module that a mutation can change: bytes, or parts, or
// both. Sized ones have the size of their parts in front of them, so that a
// mutation within them leaves the frames of the module whole.
type token struct {
	bytes []byte
	parts []*token
	sized bool
	// number is set where the bytes are a LEB128, and instruction where an
	// instruction begins that the parts go on with.
	number, instruction bool
	// lie is added to the size, and pad is the number of bytes by which it is
	// longer than it needs to be.
	lie, pad int
}

func (t *token) append(dst []byte) []byte {
	dst = append(dst, t.bytes...)
	if !t.sized {
		for _, p := range t.parts {
			dst = p.append(dst)
		}
		return dst
	}
	var content []byte
	for _, p := range t.parts {
		content = p.append(content)
	}
	size := wasmbin.AppendU32(nil, uint32(len(content)+t.lie))
	return append(append(dst, padded(size, t.pad, 0)...), content...)
}

// padded makes a LEB128 longer by n bytes, whose bits are those of fill.
func padded(leb []byte, n int, fill byte) []byte {
	if n <= 0 || len(leb) == 0 {
		return leb
	}
	out := append([]byte{}, leb...)
	out[len(out)-1] |= 0x80
	for range n - 1 {
		out = append(out, fill|0x80)
	}
	return append(out, fill&0x7f)
}

func number(v uint32) *token { return &token{bytes: wasmbin.AppendU32(nil, v), number: true} }

func single(b byte) *token { return &token{bytes: []byte{b}, number: b < 0x80} }

// add appends parts and returns t.
func (t *token) add(parts ...*token) *token {
	t.parts = append(t.parts, parts...)
	return t
}

func (t *token) name(name []byte) *token {
	return t.add(&token{sized: true, parts: []*token{{bytes: name}}})
}

// numbers splits bytes into LEB128s.
func (t *token) numbers(data []byte) *token {
	start := 0
	for i, b := range data {
		if b < 0x80 {
			t.add(&token{bytes: data[start : i+1], number: true})
			start = i + 1
		}
	}
	if start < len(data) {
		t.add(&token{bytes: data[start:]})
	}
	return t
}

func instructionToken(in *wasmbin.Instruction) *token {
	t := &token{instruction: true}
	opcode := in.Op.Append(nil)
	t.add(&token{bytes: opcode[:1]})
	t.numbers(opcode[1:])
	rest := in.Append(nil)[len(opcode):]
	if in.Raw != nil {
		return t.add(&token{bytes: rest})
	}
	return t.numbers(rest)
}

func endToken() *token { return &token{instruction: true, bytes: []byte{byte(wasmbin.OpEnd)}} }

// tokens takes a module apart. It returns nil for one that is not valid.
func tokens(wasm []byte) *token {
	m, err := wasmbin.Parse(wasm)
	if err != nil {
		return nil
	}
	w := &tokenizer{m: m, out: &token{bytes: wasmbin.Header()}}
	for _, write := range []func(){w.types, w.imports, w.functions, w.tables, w.memories, w.globals, w.exports, w.start, w.elements, w.dataCount, w.code, w.data} {
		write()
	}
	if w.failed {
		return nil
	}
	return w.out
}

type tokenizer struct {
	m      *wasmbin.Module
	out    *token
	failed bool
}

// section adds a section of n entries and returns what they are added to.
func (w *tokenizer) section(id byte, n int) *token {
	s := &token{bytes: []byte{id}, sized: true}
	if n > 0 {
		w.out.add(s.add(number(uint32(n))))
	}
	return s
}

func (w *tokenizer) types() {
	s := w.section(wasmbin.SectionType, len(w.m.Types))
	for _, t := range w.m.Types {
		s.add(single(0x60), number(uint32(len(t.Params)))).numbers([]byte(t.Params))
		s.add(number(uint32(len(t.Results)))).numbers([]byte(t.Results))
	}
}

func (w *tokenizer) imports() {
	s := w.section(wasmbin.SectionImport, len(w.m.Imports))
	tables, memories, globals := w.m.Tables, w.m.Memories, w.m.Globals
	for _, i := range w.m.Imports {
		s.name(i.Module).name(i.Name).add(single(byte(i.Kind)))
		switch i.Kind {
		case wasmbin.KindFunc:
			s.add(number(i.Type))
		case wasmbin.KindTable:
			limits(s.add(single(tables[0].Type)), tables[0].Limits)
			tables = tables[1:]
		case wasmbin.KindMemory:
			limits(s, memories[0])
			memories = memories[1:]
		case wasmbin.KindGlobal:
			globalType(s, &globals[0])
			globals = globals[1:]
		}
	}
	w.m.Tables, w.m.Memories, w.m.Globals = tables, memories, globals
}

func limits(s *token, l wasmbin.Limits) {
	if !l.HasMax {
		s.add(single(0), number(l.Min))
		return
	}
	s.add(single(1), number(l.Min), number(l.Max))
}

func globalType(s *token, g *wasmbin.Global) {
	mutable := byte(0)
	if g.Mutable {
		mutable = 1
	}
	s.add(single(g.Type), single(mutable))
}

func (w *tokenizer) functions() {
	defined := w.m.Functions[w.m.ImportedFunctions:]
	s := w.section(wasmbin.SectionFunction, len(defined))
	for _, t := range defined {
		s.add(number(t))
	}
}

func (w *tokenizer) tables() {
	s := w.section(wasmbin.SectionTable, len(w.m.Tables))
	for _, t := range w.m.Tables {
		limits(s.add(single(t.Type)), t.Limits)
	}
}

func (w *tokenizer) memories() {
	s := w.section(wasmbin.SectionMemory, len(w.m.Memories))
	for _, l := range w.m.Memories {
		limits(s, l)
	}
}

func (w *tokenizer) globals() {
	s := w.section(wasmbin.SectionGlobal, len(w.m.Globals))
	for i := range w.m.Globals {
		globalType(s, &w.m.Globals[i])
		s.add(instructionToken(w.m.Globals[i].Init), endToken())
	}
}

func (w *tokenizer) exports() {
	s := w.section(wasmbin.SectionExport, len(w.m.Exports))
	for _, e := range w.m.Exports {
		s.name(e.Name).add(single(byte(e.Kind)), number(e.Index))
	}
}

func (w *tokenizer) start() {
	if w.m.Start != nil {
		w.out.add((&token{bytes: []byte{wasmbin.SectionStart}, sized: true}).add(number(*w.m.Start)))
	}
}

func (w *tokenizer) elements() {
	s := w.section(wasmbin.SectionElement, len(w.m.Elements))
	for i := range w.m.Elements {
		e := &w.m.Elements[i]
		flags := [...]byte{wasmbin.Active: 2, wasmbin.Passive: 1, wasmbin.Declarative: 3}[e.Mode]
		if len(e.Init) > 0 || e.Type != wasmbin.FuncRef {
			flags |= 4
		}
		s.add(single(flags))
		if e.Mode == wasmbin.Active {
			s.add(number(e.Table), instructionToken(e.Offset), endToken())
		}
		if flags < 4 {
			s.add(single(0), number(uint32(len(e.Functions))))
			for _, f := range e.Functions {
				s.add(number(f))
			}
			continue
		}
		s.add(single(e.Type), number(uint32(len(e.Init))))
		for _, in := range e.Init {
			s.add(instructionToken(in), endToken())
		}
	}
}

func (w *tokenizer) dataCount() {
	if w.m.DataCount != nil {
		w.out.add((&token{bytes: []byte{wasmbin.SectionDataCount}, sized: true}).add(number(*w.m.DataCount)))
	}
}

func (w *tokenizer) data() {
	s := w.section(wasmbin.SectionData, len(w.m.Data))
	for _, d := range w.m.Data {
		if d.Mode == wasmbin.Passive {
			s.add(single(1))
		} else {
			s.add(single(0), instructionToken(d.Offset), endToken())
		}
		s.name(d.Init)
	}
}

func (w *tokenizer) code() {
	s := w.section(wasmbin.SectionCode, len(w.m.Bodies))
	for i := range w.m.Bodies {
		b := &w.m.Bodies[i]
		body := &token{sized: true}
		r, locals := b.Open(0, nil)
		body.add(number(uint32(len(locals))))
		for _, l := range locals {
			body.add(number(l.Count), single(l.Type))
		}
		for r.More() {
			in := wasmbin.Instruction{}
			r.Instruction(&in)
			if r.Err == nil {
				body.add(instructionToken(&in))
			}
		}
		w.failed = w.failed || r.Err != nil
		s.add(body)
	}
}
