package meter_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
)

// recursion is a module whose function 1 calls itself for ever. Function 2 does
// nothing, and 0 is the host's, which looks where the stack is.
type recursion struct {
	name                    string
	params, results, locals []byte
	// before and after are the code around the call.
	before, call, after []byte
}

const (
	typeI32, typeI64, typeF64, typeV128 = 0x7f, 0x7e, 0x7c, 0x7b
)

// The module has one global of each of globalTypes that takes values, and
// globalsEach to read: engines make one value of a global that is read twice.
const (
	globalTypes = "\x7f\x7e\x7c\x7b"
	globalsEach = 1000
)

func times(n int, code ...byte) []byte { return bytes.Repeat(code, n) }

func indexed(op byte, index int) []byte { return append([]byte{op}, leb(index)...) }

func get(local int) []byte { return indexed(0x20, local) }
func set(local int) []byte { return indexed(0x21, local) }

// global gets a value, sink takes one.
func global(t byte, i int) []byte {
	return indexed(0x23, len(globalTypes)+strings.IndexByte(globalTypes, t)*globalsEach+i%globalsEach)
}
func sink(t byte) []byte { return indexed(0x24, strings.IndexByte(globalTypes, t)) }

// globals gets n values, and sinks takes them.
func globals(t byte, n int) []byte { return each(n, func(i int) []byte { return global(t, i) }) }
func sinks(t byte, n int) []byte   { return times(n, sink(t)...) }

// each repeats code with a number.
func each(n int, code func(i int) []byte) (all []byte) {
	for i := range n {
		all = append(all, code(i)...)
	}
	return all
}

// wasm is the module. Type 0 is the function's, 1 is () -> (), 2 i32 -> i32, and
// 3 and 4 take and leave ten and two hundred i64.
func (r *recursion) wasm() []byte {
	functionType := func(params, results []byte) []byte {
		return slices.Concat([]byte{0x60}, leb(len(params)), params, leb(len(results)), results)
	}
	ten, many := times(10, typeI64), times(200, typeI64)
	types := slices.Concat([]byte{5}, functionType(r.params, r.results), functionType(nil, nil), functionType([]byte{typeI32}, []byte{typeI32}),
		functionType(ten, ten), functionType(many, many))
	locals := leb(len(r.locals))
	for _, t := range r.locals {
		locals = append(locals, 1, t)
	}
	call := r.call
	if call == nil {
		call = []byte{0x10, 1}
	}
	body := slices.Concat(locals, []byte{0x10, 0}, r.before, call, r.after, []byte{0x0b})
	other := []byte{0, 0x0b}
	code := slices.Concat([]byte{2}, leb(len(body)), body, leb(len(other)), other)
	part := func(id byte, content []byte) []byte { return slices.Concat([]byte{id}, leb(len(content)), content) }
	initial := map[byte][]byte{typeI32: {0x41, 1}, typeI64: {0x42, 1}, typeF64: append([]byte{0x44}, make([]byte, 8)...), typeV128: append([]byte{0xfd, 12}, make([]byte, 16)...)}
	globals := leb(len(globalTypes) * (1 + globalsEach))
	for _, mutable := range []byte{1, 0} {
		for i := range len(globalTypes) {
			g := slices.Concat([]byte{globalTypes[i], mutable}, initial[globalTypes[i]], []byte{0x0b})
			globals = append(globals, times(int(1-mutable)*(globalsEach-1)+1, g...)...)
		}
	}
	return slices.Concat([]byte("\x00asm\x01\x00\x00\x00"), part(1, types), part(2, []byte("\x01\x01p\x05place\x00\x01")), part(3, []byte{2, 0, 1}), part(4, []byte{1, 0x70, 0, 2}), part(5, []byte{1, 0, 1}),
		part(6, globals), part(7, []byte{1, 1, 'f', 0, 1}), part(9, []byte{1, 0, 0x41, 0, 0x0b, 2, 1, 2}), part(10, code))
}

// realFrame runs into the limit and returns how much of the engine's stack
// lies between one call and the next, and how many there were. The engine
// hands its stack to host functions.
func realFrame(t *testing.T, wasm []byte) (frame uint64, calls int) {
	t.Helper()
	ctx := t.Context()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler())
	defer r.Close(context.Background())
	refuel := func(_ context.Context, stack []uint64) {
		if int64(stack[0]) == meter.FuelCallDepth {
			panic(errCallDepth)
		}
		stack[0] = 1 << 60
	}
	var places []uintptr
	place := func(_ context.Context, stack []uint64) {
		places = append(places, uintptr(unsafe.Pointer(unsafe.SliceData(stack))))
	}
	_, err := r.NewHostModuleBuilder(options.ImportModule).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(refuel), []api.ValueType{api.ValueTypeI64}, []api.ValueType{api.ValueTypeI64}).Export(options.ImportName).
		Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.NewHostModuleBuilder("p").NewFunctionBuilder().WithGoFunction(api.GoFunc(place), nil, nil).Export("place").Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.Instantiate(ctx, wasm)
	if err != nil {
		t.Fatal(err)
	}
	f := m.ExportedFunction("f")
	if _, err := f.Call(ctx, make([]uint64, len(f.Definition().ParamTypes())*2)[:paramWords(f)]...); !errors.Is(err, errCallDepth) {
		t.Fatalf("error %.200v, want %v", err, errCallDepth)
	}
	return mostCommonStep(places), len(places)
}

func paramWords(f api.Function) (n int) {
	for _, t := range f.Definition().ParamTypes() {
		n++
		if t == typeV128 {
			n++
		}
	}
	return n
}

func mostCommonStep(places []uintptr) uint64 {
	count, best := map[uint64]int{}, uint64(0)
	for i := range places[:len(places)-1] {
		if places[i] <= places[i+1] {
			continue
		}
		step := uint64(places[i] - places[i+1])
		if count[step]++; count[step] > count[best] || count[step] == count[best] && step < best {
			best = step
		}
	}
	return best
}

// TestFramesAreNoLargerThanCounted compares what the engine takes of its stack
// for a call with what the meter counts.
func TestFramesAreNoLargerThanCounted(t *testing.T) {
	for _, shape := range shapes() {
		t.Run(shape.name, func(t *testing.T) { checkFrame(t, shape.wasm()) })
	}
}

func checkFrame(t *testing.T, wasm []byte) {
	t.Helper()
	deep := options
	deep.MaxStackBytes = 16 << 20
	metered, err := meter.Rewrite(wasm, deep)
	if err != nil {
		t.Fatal(err)
	}
	counted, err := meter.FrameBytes(wasm, deep)
	if err != nil {
		t.Fatal(err)
	}
	frame, calls := realFrame(t, metered)
	t.Logf("%d bytes are counted, %d are used: %.2f; %d calls", counted[0], frame, float64(frame)/float64(counted[0]), calls)
	if frame > counted[0] {
		t.Errorf("%d bytes are used, %d counted", frame, counted[0])
	}
}
