package differential_test

import (
	"bytes"
	"slices"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// decisions is the stream of bytes that a mutator decides by. Behind its end
// there are zeros, and nothing is mutated any more.
type decisions struct{ data []byte }

func (d *decisions) more() bool { return len(d.data) > 0 }

func (d *decisions) byte() byte {
	if len(d.data) == 0 {
		return 0
	}
	b := d.data[0]
	d.data = d.data[1:]
	return b
}

// below returns a number below n, which must not be 0.
func (d *decisions) below(n int) int {
	v := int(d.byte())
	if n > 256 {
		v = v<<8 | int(d.byte())
	}
	return v % n
}

func (d *decisions) u32() uint32 {
	interesting := []uint32{0, 1, 2, 3, 7, 15, 16, 31, 32, 63, 64, 65, 127, 128, 255, 256, 1000, 1 << 14, 1 << 16, 1<<16 + 1, 1<<31 - 1, 1 << 31, 1<<32 - 1}
	return interesting[d.below(len(interesting))]
}

// index returns a small number, most often 0.
func (d *decisions) index() uint32 {
	if b := d.byte(); b%4 == 0 {
		return uint32(b/4) % 17
	}
	return 0
}

func (d *decisions) bytes(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = d.byte()
	}
	return out
}

// place is where a token stands.
type place struct {
	parent *token
	index  int
}

func (p place) token() *token { return p.parent.parts[p.index] }

func (p place) insert(tokens ...*token) {
	p.parent.parts = slices.Concat(p.parent.parts[:p.index], tokens, p.parent.parts[p.index:])
}

// remove leaves the slice alone, which another token may have too.
func (p place) remove() {
	p.parent.parts = slices.Concat(p.parent.parts[:p.index], p.parent.parts[p.index+1:])
}

func (p place) replace(t *token) {
	p.parent.parts = slices.Clone(p.parent.parts)
	p.parent.parts[p.index] = t
}

// places returns those of all tokens that want takes.
func (t *token) places(want func(*token) bool) (all []place) {
	for i, p := range t.parts {
		if want(p) {
			all = append(all, place{t, i})
		}
		all = append(all, p.places(want)...)
	}
	return all
}

// maxMutations of one module: more of them leave nothing valid.
const maxMutations = 24

// mutate returns the module changed as the decisions say, or the module itself
// if there are none, or it cannot be read.
func mutate(wasm, decided []byte) []byte {
	d := &decisions{decided}
	if !d.more() {
		return wasm
	}
	module := tokens(wasm)
	if module == nil {
		return wasm
	}
	if d.byte()%4 != 0 {
		enrich(module)
	}
	for n := 0; n < maxMutations && d.more(); n++ {
		change(d, module)
	}
	return module.append(nil)
}

// enrich adds the sections that the module does not have, so that instructions
// find a memory, a table, a global and segments. With imports, the indexes
// would be others.
func enrich(module *token) {
	const order = "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0c\x0a\x0b"
	sections := map[byte]*token{}
	for _, s := range module.parts {
		sections[s.bytes[0]] = s
	}
	if sections[wasmbin.SectionImport] != nil || sections[wasmbin.SectionData] != nil && sections[wasmbin.SectionDataCount] == nil {
		return
	}
	for id, content := range map[byte]string{
		wasmbin.SectionType: "\x01\x60\x00\x00", wasmbin.SectionTable: "\x02\x70\x00\x05\x6f\x00\x05", wasmbin.SectionMemory: "\x01\x00\x01",
		wasmbin.SectionGlobal: "\x02\x7f\x01\x41\x07\x0b\x7e\x01\x42\x07\x0b", wasmbin.SectionElement: "\x02\x05\x70\x01\xd0\x70\x0b\x05\x6f\x01\xd0\x6f\x0b",
		wasmbin.SectionData: "\x01\x01\x03abc", wasmbin.SectionDataCount: "\x01",
	} {
		if sections[id] == nil {
			sections[id] = (&token{bytes: []byte{id}, sized: true}).numbers([]byte(content))
		}
	}
	module.parts = nil
	for _, id := range []byte(order) {
		if sections[id] != nil {
			module.parts = append(module.parts, sections[id])
		}
	}
}

func change(d *decisions, module *token) {
	kind := d.byte() % 64
	switch {
	case kind < 48:
		insertTemplate(d, module)
	case kind < 54:
		changeNumber(d, module)
	case kind < 59:
		changeInstruction(d, module)
	case kind < 62:
		changeSize(d, module)
	default:
		changeTokens(d, module)
	}
}

func pick(d *decisions, all []place) (place, bool) {
	if len(all) == 0 {
		return place{}, false
	}
	return all[d.below(len(all))], true
}

func isInstruction(t *token) bool { return t.instruction }

// changeNumber pads a LEB128, or makes another number of it.
func changeNumber(d *decisions, module *token) {
	p, ok := pick(d, module.places(func(t *token) bool { return t.number }))
	if !ok {
		return
	}
	t := *p.token()
	switch d.byte() % 6 {
	case 0:
		t.bytes = padded(t.bytes, 1+d.below(10), 0)
	case 1: // of a negative number, or of one that then becomes negative
		t.bytes = padded(t.bytes, 1+d.below(10), 0x7f)
	case 2: // with bits where there should be none
		t.bytes = padded(t.bytes, 1+d.below(5), d.byte()&0x7f)
	case 3:
		t.bytes = wasmbin.AppendU32(nil, d.u32())
	case 4:
		t.bytes = append(bytes.Clone(t.bytes[:len(t.bytes)-1]), d.byte())
	case 5:
		t.bytes = bytes.Clone(t.bytes)
		t.bytes[0] ^= 1 << (d.byte() % 8)
	}
	p.replace(&t)
}

// changeInstruction inserts, removes, doubles, moves or replaces one.
func changeInstruction(d *decisions, module *token) {
	all := module.places(isInstruction)
	p, ok := pick(d, all)
	if !ok {
		return
	}
	switch d.byte() % 6 {
	case 0:
		p.insert(random(d))
	case 1:
		p.remove()
	case 2:
		from, _ := pick(d, all)
		p.insert(from.token())
	case 3:
		from, _ := pick(d, all)
		p.replace(from.token())
	case 4:
		p.replace(random(d))
	case 5:
		p.insert(unknown(d))
	}
}

// changeSize lies about a size, or pads it.
func changeSize(d *decisions, module *token) {
	p, ok := pick(d, module.places(func(t *token) bool { return t.sized }))
	if !ok {
		return
	}
	if d.byte()%3 == 0 {
		p.token().lie = int(d.byte()%16) - 8
	} else {
		p.token().pad = d.below(6)
	}
}

// changeTokens removes, doubles or exchanges tokens of any kind.
func changeTokens(d *decisions, module *token) {
	p, ok := pick(d, module.places(func(*token) bool { return true }))
	if !ok {
		return
	}
	switch d.byte() % 5 {
	case 0:
		p.remove()
	case 1:
		p.insert(p.token())
	case 2:
		other := d.below(len(p.parent.parts))
		first, second := p.token(), p.parent.parts[other]
		p.replace(second)
		place{p.parent, other}.replace(first)
	case 3: // a section that nobody knows, or a custom one
		section := &token{bytes: []byte{d.byte() % 16}, sized: true, parts: []*token{{bytes: d.bytes(d.below(8))}}}
		place{module, d.below(len(module.parts) + 1)}.insert(section)
	case 4:
		t := *p.token()
		t.bytes = append(bytes.Clone(t.bytes), d.byte())
		p.replace(&t)
	}
}

// random returns an instruction with immediates by chance.
func random(d *decisions) *token {
	op := opcodes[d.below(len(opcodes))]
	in := &wasmbin.Instruction{Op: op, Spec: op.Spec(), X: d.index(), Y: d.index(), Lane: byte(d.index())}
	in.Type.Value = []byte{wasmbin.Void, wasmbin.I32, wasmbin.I64, wasmbin.F32, wasmbin.F64, wasmbin.V128, wasmbin.FuncRef, wasmbin.ExternRef, 0, 0}[d.below(10)]
	in.Type.Index = d.index()
	switch op {
	case wasmbin.OpF32Const:
		in.Raw = d.bytes(4)
	case wasmbin.OpF64Const:
		in.Raw = d.bytes(8)
	case wasmbin.OpV128Const:
		in.Raw = d.bytes(16)
	case opShuffle:
		in.Raw = d.bytes(16)
		for i := range in.Raw {
			in.Raw[i] %= 32
		}
	case wasmbin.OpBrTable:
		in.Labels = make([]uint32, 1+d.below(4))
		for i := range in.Labels {
			in.Labels[i] = d.index()
		}
	case wasmbin.OpI32Const:
		in.N = int64(int32(d.u32()))
	case wasmbin.OpI64Const:
		in.N = int64(d.u32())<<31 - int64(d.u32())
	}
	t := instructionToken(in)
	if d.byte()%16 == 0 { // pad one of its numbers
		changeNumber(d, t)
	}
	return t
}

var opcodes = wasmbin.Opcodes()

const opShuffle = wasmbin.OpV128Const + 1

// unknown returns an instruction that WebAssembly 2.0 does not have, or bytes
// that look like one.
func unknown(d *decisions) *token {
	t := &token{instruction: true}
	switch d.byte() % 4 {
	case 0:
		t.add(single(d.byte()))
	case 1:
		t.add(&token{bytes: []byte{0xfb + d.byte()%5}}, &token{number: true, bytes: wasmbin.AppendU32(nil, uint32(d.byte())<<1|uint32(d.byte()&1))})
	case 2: // the number behind a prefix is padded
		t.add(&token{bytes: []byte{0xfb + d.byte()%5}}, &token{number: true, bytes: padded([]byte{d.byte() & 0x7f}, 1+d.below(4), 0)})
	case 3:
		t.add(&token{bytes: []byte{0xfd}}, &token{number: true, bytes: wasmbin.AppendU32(nil, 0x80+uint32(d.byte()%0xc0))})
	}
	return t.add(&token{bytes: d.bytes(d.below(18))})
}

// insertTemplate inserts code that is valid between any two instructions: the
// operands of an instruction, the instruction, and a drop for each result; or an
// instruction that is never reached, whose operands may be anything.
func insertTemplate(d *decisions, module *token) {
	p, ok := pick(d, module.places(isInstruction))
	if !ok || !p.parent.sized {
		return // not in a constant expression
	}
	if d.byte()%2 == 0 {
		p.insert(unreached(d, random(d))...)
		return
	}
	t := random(d)
	op := opcodeOf(t)
	if op.Spec() == nil || isControl(op) {
		p.insert(unreached(d, t)...)
		return
	}
	var code []*token
	for _, kind := range []byte(op.Spec().Params) {
		code = append(code, constant(d, kind))
	}
	code = append(code, t)
	for range op.Spec().Results {
		code = append(code, plain(wasmbin.OpDrop))
	}
	p.insert(code...)
}

func opcodeOf(t *token) wasmbin.Opcode {
	r := &wasmbin.Reader{Data: t.append(nil)}
	in := wasmbin.Instruction{}
	r.Instruction(&in)
	return in.Op
}

func isControl(op wasmbin.Opcode) bool {
	return op <= wasmbin.OpCallIndirect && op != 1 || op >= wasmbin.OpSelect && op <= wasmbin.OpTableSet
}

// unreached wraps an instruction into a branch that is not taken, where its
// operands may be of any type.
func unreached(d *decisions, t *token) []*token {
	code := []*token{
		{instruction: true, parts: []*token{{bytes: []byte{byte(wasmbin.OpI32Const)}}, number(0)}},
		{instruction: true, parts: []*token{{bytes: []byte{byte(wasmbin.OpIf)}}, number(wasmbin.Void)}},
		plain(wasmbin.OpUnreachable),
	}
	code = append(code, t)
	if op := opcodeOf(t); op == wasmbin.OpBlock || op == wasmbin.OpLoop || op == wasmbin.OpIf {
		code = append(code, plain(wasmbin.OpUnreachable), endToken())
	}
	return append(code, plain(wasmbin.OpUnreachable), endToken())
}

func plain(op wasmbin.Opcode) *token { return &token{instruction: true, bytes: op.Append(nil)} }

// constant returns an instruction that makes a value of the type.
func constant(d *decisions, kind wasmbin.ValueType) *token {
	in := &wasmbin.Instruction{}
	switch kind {
	case wasmbin.I32:
		in.Op, in.N = wasmbin.OpI32Const, int64(int32(d.u32()))
	case wasmbin.I64:
		in.Op, in.N = wasmbin.OpI64Const, int64(d.u32())
	case wasmbin.F32:
		in.Op, in.Raw = wasmbin.OpF32Const, d.bytes(4)
	case wasmbin.F64:
		in.Op, in.Raw = wasmbin.OpF64Const, d.bytes(8)
	case wasmbin.V128:
		in.Op, in.Raw = wasmbin.OpV128Const, d.bytes(16)
	default:
		in.Op = wasmbin.OpRefNull
		in.Type.Value = kind
	}
	in.Spec = in.Op.Spec()
	return instructionToken(in)
}
