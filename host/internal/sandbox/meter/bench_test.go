package meter_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
)

// tank is the fuel of one refill in the benchmarks.
const tank = 1 << 18

// variant is one way to run a module.
type variant struct {
	name           string
	metered, close bool
}

func variants() []variant {
	return []variant{{"unmetered", false, false}, {"metered", true, false}, {"close-on-done", false, true}}
}

// start makes an instance of a module in one of the variants.
func (v variant) start(tb testing.TB, wasm []byte, options meter.Options) api.Module {
	tb.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithCloseOnContextDone(v.close))
	tb.Cleanup(func() { r.Close(ctx) })
	if v.metered {
		var err error
		if wasm, err = meter.Rewrite(wasm, options); err != nil {
			tb.Fatal(err)
		}
	}
	refuel := func(ctx context.Context, stack []uint64) {
		if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
			panic(errOutOfTime)
		}
		stack[0] = uint64(int64(stack[0])%tank + tank)
	}
	_, err := r.NewHostModuleBuilder(options.ImportModule).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(refuel), []api.ValueType{api.ValueTypeI64}, []api.ValueType{api.ValueTypeI64}).Export(options.ImportName).
		Instantiate(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	m, err := r.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithStartFunctions("_initialize"))
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// call is one call of an export.
func call(ctx context.Context, tb testing.TB, f api.Function, stack []uint64, arg uint64) {
	stack[0] = arg
	if err := f.CallWithStack(ctx, stack); err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkMeter compares the meter with no interruption at all and with the
// runtime's own.
func BenchmarkMeter(b *testing.B) {
	big := options
	big.MaxMemoryPages, big.MaxTableElements = 1<<10, 1<<20
	for _, bench := range []struct {
		name, file, export string
		arg                uint64
	}{
		{"empty-call", "testdata/bench.wasm", "empty", 0},
		{"loop-100k", "testdata/bench.wasm", "sum", 100_000},
		{"calls-100k", "testdata/bench.wasm", "calls", 100_000},
		{"fibonacci-20", "testdata/bench.wasm", "fibonacci", 20},
		{"nested-100k", "testdata/bench.wasm", "nested", 100_000},
		{"copies-10k", "testdata/bench.wasm", "copies", 10_000},
		{"json", filepath.Join(buildDir(), "json.wasm"), "decode", 0},
	} {
		wasm, err := os.ReadFile(bench.file)
		if err != nil {
			b.Logf("%s: %v", bench.name, err)
			continue
		}
		for _, v := range variants() {
			b.Run(bench.name+"/"+v.name, func(b *testing.B) {
				f := v.start(b, wasm, big).ExportedFunction(bench.export)
				ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
				defer cancel()
				stack := make([]uint64, 4)
				for b.Loop() {
					call(ctx, b, f, stack, bench.arg)
				}
			})
		}
	}
}

func buildDir() string {
	if dir := os.Getenv("CCM_BUILD"); dir != "" {
		return dir
	}
	return "../../../../build"
}
