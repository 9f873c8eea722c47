package hostile_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/imports"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// sample is one instruction with what it takes and leaves, to be run again and
// again.
type sample struct {
	name string
	op   wasmbin.Opcode
	code []byte
	// times is how often it runs; most is for all but the imports.
	times int
}

const (
	// sampleTimes is how often a sample runs, in turns of sampleCopies.
	sampleTimes  = 1_000_000
	sampleCopies = 16
	// importTimes is the same for what the host answers.
	importTimes = 100_000
	// waitingTimes is that for what waits for its turn, 500 a second.
	waitingTimes = 5_000
)

// What the module of the samples declares. Its globals are one for each value
// type, where operands come from and results go to.
const (
	sampleTypes = "\x7f\x7e\x7d\x7c\x7b\x70\x6f"
	// Tables: what dispatches, one that is full, one of externref.
	tableDispatch, tableFull, tableExtern = 0, 1, 2
	// Functions behind the imports, as newBuilt numbers them, and one that
	// returns by an instruction.
	calleeNone, calleeReturn = 0, 3
)

// ins is one instruction with its immediate indexes.
func ins(op wasmbin.Opcode, indexes ...uint32) []byte {
	in := wasmbin.Instruction{Op: op, Spec: op.Spec(), Type: wasmbin.BlockType{Value: wasmbin.Void}, Labels: []uint32{0, 0, 0}}
	in.Raw = make([]byte, rawBytes(op))
	if len(indexes) > 0 {
		in.X = indexes[0]
	}
	if len(indexes) > 1 {
		in.Y = indexes[1]
	}
	return in.Append(nil)
}

func rawBytes(op wasmbin.Opcode) int {
	switch op {
	case wasmbin.OpF32Const:
		return 4
	case wasmbin.OpF64Const:
		return 8
	}
	return 16 // v128.const and i8x16.shuffle; the others have none
}

func i32(v int64) []byte {
	in := wasmbin.Instruction{Op: wasmbin.OpI32Const, Spec: wasmbin.OpI32Const.Spec(), N: v}
	return in.Append(nil)
}

// operand takes a value of the type, and result keeps one.
func operand(t wasmbin.ValueType) []byte {
	return ins(wasmbin.OpGlobalGet, uint32(strings.IndexByte(sampleTypes, t)))
}

func result(t wasmbin.ValueType) []byte {
	return ins(wasmbin.OpGlobalSet, uint32(strings.IndexByte(sampleTypes, t)+len(sampleTypes)))
}

// samples has every instruction of WebAssembly 2.0, some in several ways. The
// imports are those that the module has.
func samples(imported []imports.Function) (all []sample) {
	for _, op := range wasmbin.Opcodes() {
		special, ok := specialSamples(imported)[op]
		if !ok {
			special = map[string][]byte{"": generic(op)}
		}
		for variant, code := range special {
			all = append(all, sample{name: strings.TrimSpace(op.Spec().Name + " " + variant), op: op, code: code, times: sampleTimes})
		}
	}
	for i, f := range imported {
		if !slices.Contains(notSampled(), f.Name) {
			times := importTimes
			if f.Name == string(abi.CapabilityKube) {
				times = waitingTimes
			}
			all = append(all, sample{name: "call " + f.Name, op: wasmbin.OpCall, code: callImport(uint32(i), f), times: times})
		}
	}
	slices.SortFunc(all, func(a, b sample) int { return strings.Compare(a.name, b.name) })
	return all
}

// notSampled are the imports that end a guest, the second time at the latest,
// and the store, which makes it wait.
func notSampled() []string {
	return []string{"proc_exit", abi.ImportRespWrite, abi.ImportErrWrite, abi.CapabilityStore}
}

// generic is an instruction whose operands depend on its opcode alone.
func generic(op wasmbin.Opcode) (code []byte) {
	spec := op.Spec()
	for i := range len(spec.Params) {
		code = append(code, operand(spec.Params[i])...)
	}
	code = append(code, ins(op)...)
	for i := range len(spec.Results) {
		code = append(code, result(spec.Results[i])...)
	}
	return code
}

func callImport(index uint32, f imports.Function) (code []byte) {
	for _, t := range f.Params {
		if byte(t) == wasmbin.I64 {
			code = append(code, 0x42, 0)
		} else {
			code = append(code, i32(0)...)
		}
	}
	code = append(code, ins(wasmbin.OpCall, index)...)
	for range f.Results {
		code = append(code, ins(wasmbin.OpDrop)...)
	}
	return code
}

// specialSamples are the instructions whose operands depend on more than the
// opcode.
func specialSamples(imported []imports.Function) map[wasmbin.Opcode]map[string][]byte {
	n := uint32(len(imported))
	number, end := operand(wasmbin.I32), ins(wasmbin.OpEnd)
	intoNumber := result(wasmbin.I32)
	inBlock := func(code ...[]byte) []byte {
		return slices.Concat(ins(wasmbin.OpBlock), slices.Concat(code...), end)
	}
	either := slices.Concat(number, ins(wasmbin.OpIf), number, intoNumber, ins(wasmbin.OpElse), number, intoNumber, end)
	one := func(code ...[]byte) map[string][]byte { return map[string][]byte{"": slices.Concat(code...)} }
	all := map[wasmbin.Opcode]map[string][]byte{
		// What follows cannot be reached: an instance lives through one only.
		wasmbin.OpUnreachable:  one(i32(0), ins(wasmbin.OpIf), ins(wasmbin.OpUnreachable), end),
		wasmbin.OpBlock:        one(inBlock()),
		wasmbin.OpEnd:          one(inBlock()),
		wasmbin.OpLoop:         one(ins(wasmbin.OpLoop), end),
		wasmbin.OpIf:           one(either),
		wasmbin.OpElse:         one(either),
		wasmbin.OpBr:           one(inBlock(ins(wasmbin.OpBr, 0))),
		wasmbin.OpBrIf:         one(inBlock(number, ins(wasmbin.OpBrIf, 0))),
		wasmbin.OpBrTable:      one(inBlock(number, ins(wasmbin.OpBrTable))),
		wasmbin.OpReturn:       one(ins(wasmbin.OpCall, n+calleeReturn)),
		wasmbin.OpCall:         one(ins(wasmbin.OpCall, n+calleeNone)),
		wasmbin.OpCallIndirect: one(i32(0), ins(wasmbin.OpCallIndirect, typeNone, tableFull)),
		wasmbin.OpDrop:         one(number, ins(wasmbin.OpDrop)),
		wasmbin.OpSelect:       one(number, number, number, ins(wasmbin.OpSelect), intoNumber),
		wasmbin.OpSelectTyped:  one(operand(wasmbin.FuncRef), operand(wasmbin.FuncRef), number, []byte{0x1c, 1, wasmbin.FuncRef}, result(wasmbin.FuncRef)),
	}
	for _, more := range []map[wasmbin.Opcode]map[string][]byte{variableSamples(), referenceSamples(n), growingSamples()} {
		for op, code := range more {
			all[op] = code
		}
	}
	return all
}

func variableSamples() map[wasmbin.Opcode]map[string][]byte {
	all := map[wasmbin.Opcode]map[string][]byte{
		wasmbin.OpLocalGet: {}, wasmbin.OpLocalSet: {}, wasmbin.OpLocalTee: {}, wasmbin.OpGlobalGet: {}, wasmbin.OpGlobalSet: {},
	}
	for i := range len(sampleTypes) {
		t := sampleTypes[i]
		name, local := wasmbin.TypeName(t), uint32(i)+1
		get := ins(wasmbin.OpLocalGet, local)
		all[wasmbin.OpLocalGet][name] = append(get, result(t)...)
		all[wasmbin.OpLocalSet][name] = append(operand(t), ins(wasmbin.OpLocalSet, local)...)
		all[wasmbin.OpLocalTee][name] = slices.Concat(operand(t), ins(wasmbin.OpLocalTee, local), result(t))
		all[wasmbin.OpGlobalGet][name] = append(operand(t), ins(wasmbin.OpDrop)...)
		all[wasmbin.OpGlobalSet][name] = append(operand(t), result(t)...)
	}
	return all
}

func referenceSamples(n uint32) map[wasmbin.Opcode]map[string][]byte {
	all := map[wasmbin.Opcode]map[string][]byte{
		wasmbin.OpRefFunc: {"": append(ins(wasmbin.OpRefFunc, n+calleeNone), result(wasmbin.FuncRef)...)},
		wasmbin.OpRefNull: {}, wasmbin.OpRefIsNull: {}, wasmbin.OpTableGet: {}, wasmbin.OpTableSet: {}, wasmbin.OpTableFill: {},
		wasmbin.OpTableCopy: {}, wasmbin.OpTableSize: {},
	}
	for _, t := range []struct {
		ref   wasmbin.ValueType
		table uint32
	}{{wasmbin.FuncRef, tableFull}, {wasmbin.ExternRef, tableExtern}} {
		name := wasmbin.TypeName(t.ref)
		all[wasmbin.OpRefNull][name] = append([]byte{0xd0, t.ref}, result(t.ref)...)
		all[wasmbin.OpRefIsNull][name] = slices.Concat(operand(t.ref), ins(wasmbin.OpRefIsNull), result(wasmbin.I32))
		all[wasmbin.OpTableGet][name] = slices.Concat(i32(0), ins(wasmbin.OpTableGet, t.table), result(t.ref))
		all[wasmbin.OpTableSet][name] = slices.Concat(i32(1), operand(t.ref), ins(wasmbin.OpTableSet, t.table))
		all[wasmbin.OpTableFill][name] = slices.Concat(i32(1), operand(t.ref), i32(2), ins(wasmbin.OpTableFill, t.table))
		all[wasmbin.OpTableCopy][name] = slices.Concat(i32(0), i32(1), i32(2), ins(wasmbin.OpTableCopy, t.table, t.table))
		all[wasmbin.OpTableSize][name] = append(ins(wasmbin.OpTableSize, t.table), result(wasmbin.I32)...)
	}
	return all
}

// growingSamples are what grows by nothing or not at all, and the segments: 0
// is the one that is used, 1 the one that is dropped.
func growingSamples() map[wasmbin.Opcode]map[string][]byte {
	null := []byte{0xd0, wasmbin.FuncRef}
	extern := []byte{0xd0, wasmbin.ExternRef}
	drop := ins(wasmbin.OpDrop)
	return map[wasmbin.Opcode]map[string][]byte{
		wasmbin.OpMemoryGrow: {
			"by 0":       slices.Concat(i32(0), ins(wasmbin.OpMemoryGrow), drop),
			"that fails": slices.Concat(i32(65535), ins(wasmbin.OpMemoryGrow), drop),
		},
		wasmbin.OpTableGrow: {
			"by 0":                  slices.Concat(null, i32(0), ins(wasmbin.OpTableGrow, tableFull), drop),
			"that fails":            slices.Concat(null, i32(1), ins(wasmbin.OpTableGrow, tableFull), drop),
			"that fails by far":     slices.Concat(null, i32(-1), ins(wasmbin.OpTableGrow, tableFull), drop),
			"externref by 0":        slices.Concat(extern, i32(0), ins(wasmbin.OpTableGrow, tableExtern), drop),
			"externref, that fails": slices.Concat(extern, i32(1), ins(wasmbin.OpTableGrow, tableExtern), drop),
		},
		wasmbin.OpMemoryInit: {"": slices.Concat(i32(64), i32(0), i32(2), ins(wasmbin.OpMemoryInit, 1))},
		wasmbin.OpDataDrop:   {"": ins(wasmbin.OpDataDrop, 2)},
		wasmbin.OpTableInit:  {"": slices.Concat(i32(0), i32(0), i32(2), ins(wasmbin.OpTableInit, 1, tableFull))},
		wasmbin.OpElemDrop:   {"": ins(wasmbin.OpElemDrop, 2)},
	}
}

// samplesModule is a guest whose op number i runs sample i.
func samplesModule(imported []imports.Function, all []sample) []byte {
	b := newBuilt()
	b.imports, b.hasDataCount = nil, true
	for _, f := range imported {
		b.imports = append(b.imports, append(append(name(f.Module), name(f.Name)...), 0, byte(len(b.types))))
		params, results := make([]byte, len(f.Params)), make([]byte, len(f.Results))
		for i, t := range f.Params {
			params[i] = byte(t)
		}
		for i, t := range f.Results {
			results[i] = byte(t)
		}
		b.types = append(b.types, slices.Concat([]byte{0x60}, name(string(params)), name(string(results))))
	}
	b.datas = append(b.datas, []byte{1, 2, 1, 1}, []byte{1, 2, 1, 1})
	b.bodies, b.functions = b.bodies[:2], b.functions[:2]
	b.function(typeCall, nil, slices.Concat(ins(wasmbin.OpLocalGet, 0), ins(wasmbin.OpCallIndirect, typeNone, tableDispatch), i32(0)))
	b.function(typeNone, nil, ins(wasmbin.OpReturn))
	first := uint32(len(imported) + len(b.bodies))
	b.sampleGlobals()
	var dispatched []byte
	for i, s := range all {
		b.function(typeNone, sampleLocals(), s.body())
		dispatched = wasmbin.AppendU32(dispatched, first+uint32(i))
	}
	b.sampleTables(uint32(len(imported)), uint32(len(all)), dispatched)
	return b.wasm()
}

func sampleLocals() (groups [][]byte) {
	for i := range len(sampleTypes) {
		if i == 0 {
			groups = append(groups, []byte{1, wasmbin.I32}) // the counter
		}
		groups = append(groups, []byte{1, sampleTypes[i]})
	}
	return groups
}

// body runs the sample so often.
func (s *sample) body() []byte {
	return slices.Concat(
		i32(int64(s.times/sampleCopies)), ins(wasmbin.OpLocalSet, 0),
		ins(wasmbin.OpLoop), bytes.Repeat(s.code, sampleCopies),
		ins(wasmbin.OpLocalGet, 0), i32(1), []byte{0x6b}, ins(wasmbin.OpLocalTee, 0), ins(wasmbin.OpBrIf, 0), ins(wasmbin.OpEnd),
	)
}

// sampleGlobals adds the operands and the results. The floats are denormal:
// some processors take a hundred times as long for these.
func (b *built) sampleGlobals() {
	denormal := []byte{1, 2, 3, 4, 5, 6, 7, 0}
	values := [][]byte{
		i32(1), {0x42, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20},
		append([]byte{0x43}, denormal[4:]...), append([]byte{0x44}, denormal...),
		slices.Concat([]byte{0xfd, 12}, denormal, denormal),
		{0xd0, wasmbin.FuncRef}, {0xd0, wasmbin.ExternRef},
	}
	values[2][4] = 0 // denormal as well
	values[3][7] = 0
	for range 2 {
		for i, value := range values {
			b.globals = append(b.globals, slices.Concat([]byte{sampleTypes[i], 1}, value, []byte{0x0b}))
		}
	}
}

func (b *built) sampleTables(imported, n uint32, dispatched []byte) {
	b.tables = [][]byte{
		wasmbin.AppendU32([]byte{wasmbin.FuncRef, 0}, n), {wasmbin.FuncRef, 1, 8, 8}, {wasmbin.ExternRef, 1, 8, 8},
	}
	callee := byte(imported + calleeNone)
	if imported+calleeNone > 127 {
		panic(fmt.Sprintf("%d imports", imported))
	}
	b.elements = [][]byte{
		slices.Concat([]byte{0, 0x41, 0, 0x0b}, wasmbin.AppendU32(nil, n), dispatched),
		{1, 0, 2, callee, callee}, // passive
		{1, 0, 2, callee, callee},
		{2, tableFull, 0x41, 0, 0x0b, 0, 2, callee, callee},
	}
}
