package differential_test

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// options are small, so that what a mutant does is over soon.
var options = meter.Options{ImportModule: "ccm_meter", ImportName: "refuel", MaxMemoryPages: 64, MaxTableElements: 1 << 10, MaxStackBytes: 1 << 16}

// refuel is what a tank holds, and tanks how many there are for one module.
const (
	refuel = 1 << 16
	tanks  = 4
)

// reader is an engine.
type reader interface {
	name() string
	// accepts compiles a module and throws it away. raw is what the engine is
	// never given otherwise: the module as it came.
	accepts(wasm []byte) error
	// run returns what the instantiation and each call come to, up to the first
	// that is ended by a bound, and then the memory. Only metered modules know of
	// fuel; others are bounded by the engine's own means.
	run(wasm []byte, metered bool, p program) []string
}

// program is what is run of a module: functions, one after the other. memory is
// the export that is looked at then, or "".
type program struct {
	functions []string
	memory    string
}

// digest tells memories apart.
func digest(memory []byte) string {
	return fmt.Sprintf("%d bytes, %08x", len(memory), crc32.ChecksumIEEE(memory))
}

// What calls come to that reach a bound: this is not compared, and the calls
// behind it are not made.
const (
	endedFuel  = "ended: fuel"
	endedDepth = "ended: call depth"
)

func ended(outcome string) bool { return strings.HasPrefix(outcome, "ended: ") }

// onPurpose are the refusals of modules that both engines accept.
var onPurpose = []string{
	// Readers are known to differ, or could.
	"is padded",
	"one type, and 1 as the count of its types",
	// What a guest has no use for, and what costs the host: see host/internal/sandbox/meter.
	"only functions are allowed",
	"ref.func in a function",
	"which is the host's own",
	// Bounds.
	"are allowed",
	"above the limit",
	"blocks nest deeper",
}

// purpose is the entry of onPurpose that a refusal belongs to, or "".
func purpose(err error) string {
	for _, text := range onPurpose {
		if strings.Contains(err.Error(), text) {
			return text
		}
	}
	return ""
}

// withoutCustom returns the module without its custom sections. Engines never
// see these: the meter drops them. wazero reads the names in the one called
// "name", and refuses what is damaged there, though the specification has that
// ignored.
func withoutCustom(wasm []byte) []byte {
	out := wasmbin.Header()
	for r := (&wasmbin.Reader{Data: wasm, Pos: len(out)}); r.More(); {
		start := r.Pos
		id := r.Byte()
		if r.Bytes(r.U32()); id != 0 {
			out = append(out, wasm[start:r.Pos]...)
		}
	}
	return out
}

// withoutNames is a module without its sections "name". No engine sees one, and
// wazero makes room for as many names as it says there are: 16 bytes took
// gigabytes.
func withoutNames(wasm []byte) []byte {
	header := len(wasmbin.Header())
	if len(wasm) < header {
		return wasm
	}
	out := bytes.Clone(wasm[:header])
	r := &wasmbin.Reader{Data: wasm, Pos: len(out)}
	for r.More() {
		start := r.Pos
		id := r.Byte()
		content := &wasmbin.Reader{Data: r.Bytes(r.U32())}
		if id != 0 || string(content.Name()) != "name" {
			out = append(out, wasm[start:r.Pos]...)
		}
	}
	if r.Err != nil {
		return wasm // damaged in another way
	}
	return out
}

// judge compares what we and the engines make of a module.
func judge(t *testing.T, readers []reader, wasm []byte) (v verdict) {
	t.Helper()
	metered, err := meter.Rewrite(wasm, options)
	if err != nil {
		v.refused = judgeRefused(t, readers, wasm, err)
		return v
	}
	v.accepted = true
	wasm = withoutCustom(wasm)
	module, _ := wasmbin.Parse(wasm)
	for what, wasm := range map[string][]byte{"as it came": wasm, "metered": metered, "marked": marked(t, wasm, module)} {
		for _, r := range readers {
			if err := r.accepts(wasm); err != nil {
				t.Errorf("%s refuses a module that we accept, %s: %v\n%x", r.name(), what, err, wasm)
			}
		}
	}
	if !t.Failed() && runs(module) {
		v.compared, v.known = judgeRuns(t, readers, wasm, metered, module)
	}
	return v
}

// verdict says what has been compared.
type verdict struct {
	accepted bool
	// refused is the entry of onPurpose for a module that we refuse and all
	// engines accept, as far as that was tried.
	refused string
	// compared is the number of calls, and known why one of them differs.
	compared int
	known    string
}

// judgeRefused looks for what all engines take and we refuse. wazero makes room
// for what a module says it holds before it looks, so it comes last.
func judgeRefused(t *testing.T, readers []reader, wasm []byte, refusal error) (reason string) {
	t.Helper()
	if len(readers) < 2 {
		return ""
	}
	wasm = withoutNames(wasm)
	for _, r := range slices.Backward(readers) {
		if r.accepts(wasm) != nil {
			return ""
		}
	}
	if reason = purpose(refusal); reason == "" {
		t.Errorf("all engines accept a module that we refuse: %v\n%x", refusal, wasm)
	}
	return reason
}

// runs tells modules that need nothing of others.
func runs(m *wasmbin.Module) bool { return len(m.Imports) == 0 }

// judgeRuns calls what can be called without arguments, with and without the
// meter, on each engine, and compares what it comes to.
func judgeRuns(t *testing.T, readers []reader, wasm, metered []byte, module *wasmbin.Module) (compared int, known string) {
	t.Helper()
	p := programOf(module)
	want := readers[0].run(metered, true, p)
	if n := len(want) - 1; ended(want[n]) {
		// Without the meter it might never come back: it is left out.
		if want = want[:n]; n == 0 {
			return 0, ""
		}
		p = program{functions: p.functions[:n-1]} // the first is the instantiation
	}
	for i, r := range readers {
		if i > 0 {
			n, k := compare(t, r.name()+", metered", want, r.run(metered, true, p), module, wasm)
			compared, known = compared+n, cmp.Or(known, k)
		}
		if i > 0 || !uses(module, wasmbin.OpTableGrow) { // which wazero does not bound
			n, k := compare(t, r.name()+", as it came", want, r.run(wasm, false, p), module, wasm)
			compared, known = compared+n, cmp.Or(known, k)
		}
	}
	return compared, known
}

// compare returns the number of calls that come to the same, and why the next
// does not.
func compare(t *testing.T, what string, want, got []string, module *wasmbin.Module, wasm []byte) (same int, known string) {
	t.Helper()
	for i := range want {
		if i >= len(got) || ended(got[i]) {
			return i, "" // by its own bounds, which are others
		}
		if want[i] == got[i] {
			continue
		}
		if known = knownDifference(i, module); known == "" {
			t.Errorf("call %d: %s: %s, metered by wazero: %s\n%x", i, what, got[i], want[i], wasm)
		}
		return i, known
	}
	return len(want), ""
}

// knownDifference says why engines may differ.
func knownDifference(call int, module *wasmbin.Module) string {
	active := func(e wasmbin.Element) bool { return e.Mode == wasmbin.Active }
	switch {
	case call == 0 && slices.ContainsFunc(module.Elements, active):
		return "wazero leaves out elements that do not fit into the table"
	case hasFloats(module):
		return "the bits of a NaN are not specified"
	}
	return ""
}

func hasFloats(module *wasmbin.Module) bool {
	return anyInstruction(module, func(in *wasmbin.Instruction) bool {
		return strings.HasPrefix(in.Spec.Name, "f") && in.Spec.Name != "f32.const" && in.Spec.Name != "f64.const"
	})
}

func uses(module *wasmbin.Module, op wasmbin.Opcode) bool {
	return anyInstruction(module, func(in *wasmbin.Instruction) bool { return in.Op == op })
}

func anyInstruction(module *wasmbin.Module, is func(*wasmbin.Instruction) bool) bool {
	in := wasmbin.Instruction{}
	for i := range module.Bodies {
		for r, _ := module.Bodies[i].Open(0, nil); r.More(); {
			if r.Instruction(&in); r.Err == nil && is(&in) {
				return true
			}
		}
	}
	return false
}

// programOf runs the exported functions that take nothing, and return what
// every engine's library can hand on.
func programOf(module *wasmbin.Module) (p program) {
	for _, e := range module.Exports {
		switch e.Kind {
		case wasmbin.KindMemory:
			p.memory = string(e.Name)
		case wasmbin.KindFunc:
			if f := module.Type(e.Index); f.Params == "" && !strings.ContainsAny(f.Results, results) {
				p.functions = append(p.functions, string(e.Name))
			}
		}
	}
	return p
}

const results = string(wasmbin.V128) + string(wasmbin.FuncRef) + string(wasmbin.ExternRef)

// result is a result as text. Of NaNs there is one.
func result(kind wasmbin.ValueType, bits uint64) string {
	if kind == wasmbin.F32 && math.IsNaN(float64(math.Float32frombits(uint32(bits)))) || kind == wasmbin.F64 && math.IsNaN(math.Float64frombits(bits)) {
		return "nan"
	}
	if kind == wasmbin.I32 || kind == wasmbin.F32 {
		bits &= math.MaxUint32
	}
	return fmt.Sprintf("%x", bits)
}

// marked returns the module with a nop before each instruction, and with
// constants and offsets that begin with bytes which are no opcode: an engine
// that takes one of our immediates for an instruction, or the other way round,
// refuses it.
func marked(t *testing.T, wasm []byte, module *wasmbin.Module) []byte {
	t.Helper()
	out := wasmbin.Header()
	for r := (&wasmbin.Reader{Data: wasm, Pos: 8}); r.More(); {
		start := r.Pos
		id := r.Byte()
		r.Bytes(r.U32())
		if id == wasmbin.SectionCode {
			content := markedCode(t, module)
			out = append(wasmbin.AppendU32(append(out, id), uint32(len(content))), content...)
			continue
		}
		out = append(out, wasm[start:r.Pos]...)
	}
	return out
}

func markedCode(t *testing.T, module *wasmbin.Module) []byte {
	t.Helper()
	out := wasmbin.AppendU32(nil, uint32(len(module.Bodies)))
	in := wasmbin.Instruction{}
	for i := range module.Bodies {
		r, _ := module.Bodies[i].Open(0, nil)
		body := bytes.Clone(r.Data[:r.Pos])
		for r.More() {
			start := r.Pos
			if r.Instruction(&in); r.Err != nil {
				t.Fatal(r.Err)
			}
			body = append(append(body, byte(opNop)), poisoned(&in, r.Data[start:r.Pos])...)
		}
		out = append(wasmbin.AppendU32(out, uint32(len(body))), body...)
	}
	return out
}

const opNop wasmbin.Opcode = 0x01

// poisoned returns an instruction of the same type, whose constant begins with
// a byte that is no opcode.
func poisoned(in *wasmbin.Instruction, raw []byte) []byte {
	switch {
	case in.Op == wasmbin.OpI32Const || in.Op == wasmbin.OpI64Const:
		return append(in.Op.Append(nil), 0xff, 0xff, 0x7f)
	case in.Op == wasmbin.OpF32Const || in.Op == wasmbin.OpF64Const || in.Op == wasmbin.OpV128Const:
		return append(in.Op.Append(nil), bytes.Repeat([]byte{0xff}, len(in.Raw))...)
	case in.Spec.IsMemoryAccess():
		other := *in
		other.Y = math.MaxUint32
		return other.Append(nil)
	}
	return raw
}
