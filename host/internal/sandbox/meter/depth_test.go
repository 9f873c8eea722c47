package meter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
)

var errCallDepth = errors.New("call depth")

// instantiate makes an instance that has fuel for ever, and tells when the
// calls nest too deep.
func instantiate(tb testing.TB, config wazero.RuntimeConfig, wasm []byte) api.Module {
	tb.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, config)
	tb.Cleanup(func() { r.Close(ctx) })
	refuel := func(_ context.Context, stack []uint64) {
		if int64(stack[0]) == meter.FuelCallDepth {
			panic(errCallDepth)
		}
		stack[0] = tank
	}
	_, err := r.NewHostModuleBuilder(options.ImportModule).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(refuel), []api.ValueType{api.ValueTypeI64}, []api.ValueType{api.ValueTypeI64}).Export(options.ImportName).
		Instantiate(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	m, err := r.Instantiate(ctx, wasm)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// deepest is the largest argument with which an export comes back; with one
// more it nests too deep.
func deepest(t *testing.T, config wazero.RuntimeConfig, wasm []byte, export string) uint64 {
	t.Helper()
	low, high := uint64(0), uint64(1<<20)
	for low < high {
		n := (low + high + 1) / 2
		_, err := instantiate(t, config, wasm).ExportedFunction(export).Call(t.Context(), n)
		switch {
		case err == nil:
			low = n
		case errors.Is(err, errCallDepth):
			high = n - 1
		default:
			t.Fatalf("%s(%d): %v", export, n, err)
		}
	}
	return low
}

func TestCallDepthIsBoundedTheSameOnEveryEngine(t *testing.T) {
	wasm, err := os.ReadFile("testdata/depth.wasm")
	if err != nil {
		t.Fatal(err)
	}
	shallow := options
	shallow.MaxStackBytes = 20_000
	metered, err := meter.Rewrite(wasm, shallow)
	if err != nil {
		t.Fatal(err)
	}
	for _, export := range []string{"direct", "indirect", "mutual", "two_results"} {
		n := deepest(t, wazero.NewRuntimeConfigCompiler(), metered, export)
		if other := deepest(t, wazero.NewRuntimeConfigInterpreter(), metered, export); other != n || n < 40 || n > 150 {
			t.Errorf("%s comes back from %d calls on one engine and from %d on another", export, n, other)
		}
		m := instantiate(t, wazero.NewRuntimeConfigCompiler(), metered)
		for range 3 { // what a call took, it has given back
			if got, err := m.ExportedFunction("wide").Call(t.Context(), 1000); err != nil || got[0] != 1000 {
				t.Errorf("wide(1000) = %v, %v; want 1000", got, err)
			}
			if got, err := m.ExportedFunction(export).Call(t.Context(), n); err != nil || got[0] != n {
				t.Errorf("%s(%d) again = %v, %v", export, n, got, err)
			}
		}
	}
}

func TestWideFunctionsCountAsMore(t *testing.T) {
	const limit = 100_000
	deep := options
	deep.MaxStackBytes = limit
	for _, locals := range []int{0, 640, 3000} {
		metered, err := meter.Rewrite(recursionWithLocals(locals), deep)
		if err != nil {
			t.Fatal(err)
		}
		// The call itself, parameter and locals, a difference, an argument.
		frame := uint64(128 + 8*(1+locals) + 8 + 8)
		if n, want := deepest(t, wazero.NewRuntimeConfigCompiler(), metered, "f"), limit/frame-1; n != want {
			t.Errorf("%d locals: %d calls come back, want %d", locals, n, want)
		}
	}
}

// recursionWithLocals is f(n) = n && f(n-1) with so many i64 locals.
func recursionWithLocals(locals int) []byte {
	body := append(leb(1), append(leb(locals), 0x7e)...)
	body = append(body, 0x20, 0, 0x04, 0x40, 0x20, 0, 0x41, 1, 0x6b, 0x10, 0, 0x0b, 0x01, 0x01, 0x0b)
	code := append(leb(1), append(leb(len(body)), body...)...)
	wasm := []byte("\x00asm\x01\x00\x00\x00\x01\x05\x01\x60\x01\x7f\x00\x03\x02\x01\x00\x07\x05\x01\x01f\x00\x00\x0a")
	return append(append(wasm, leb(len(code))...), code...)
}

func leb(n int) []byte {
	var out []byte
	for ; n >= 0x80; n >>= 7 {
		out = append(out, byte(n)|0x80)
	}
	return append(out, byte(n))
}

// TestBulkOperationsInPieces compares long copies and fills with the ones of
// the engine.
func TestBulkOperationsInPieces(t *testing.T) {
	wasm, err := os.ReadFile("testdata/bulk.wasm")
	if err != nil {
		t.Fatal(err)
	}
	big := options
	big.MaxMemoryPages = 64
	metered, err := meter.Rewrite(wasm, big)
	if err != nil {
		t.Fatal(err)
	}
	a, b := instantiate(t, wazero.NewRuntimeConfigCompiler(), wasm), instantiate(t, wazero.NewRuntimeConfigCompiler(), metered)
	const size, chunk = 64 << 16, 1 << 20
	random := rand.New(rand.NewPCG(1, 2))
	noise, _ := a.Memory().Read(0, size)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	b.Memory().Write(0, noise)
	near := []uint64{0, 1, 7, chunk - 1, chunk, chunk + 1, 2 * chunk, 3*chunk + 5, size - chunk, size - 1, size, size + 1, 1<<32 - 1}
	for i := range 2000 {
		name := []string{"copy", "fill"}[i%8/7]
		args := make([]uint64, 3)
		for j := range args {
			args[j] = near[random.IntN(len(near))]
		}
		if i%3 == 0 {
			args[1], args[2] = args[0]+uint64(random.IntN(3))*777-777, chunk+uint64(random.IntN(2*chunk))
			args[1] = uint64(uint32(args[1]))
		}
		_, errA := a.ExportedFunction(name).Call(t.Context(), args...)
		_, errB := b.ExportedFunction(name).Call(t.Context(), args...)
		if (errA == nil) != (errB == nil) {
			t.Fatalf("%s%v: %v without the meter, %v with it", name, args, errA, errB)
		}
		wantMemory, _ := a.Memory().Read(0, size)
		gotMemory, _ := b.Memory().Read(0, size)
		if !bytes.Equal(wantMemory, gotMemory) {
			t.Fatal(fmt.Errorf("%s%v: the memories differ", name, args))
		}
	}
}
