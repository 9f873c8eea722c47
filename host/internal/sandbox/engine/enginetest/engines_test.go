package enginetest

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"testing"

	wazeroruntime "github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/imports"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wazero"
)

// engines makes those of this build, with a compilation cache in dir, or without one for "".
func engines() map[string]func(dir string) engine.Engine {
	all := map[string]func(dir string) engine.Engine{
		"wazero": func(dir string) engine.Engine { return wazero.New(wazero.Options{CacheDir: dir}) },
	}
	maps.Copy(all, tagged())
	return all
}

func TestContract(t *testing.T) {
	for name, newEngine := range engines() {
		t.Run(name, func(t *testing.T) { contract(t, func() engine.Engine { return newEngine("") }) })
		t.Run(name+" with compilation cache", func(t *testing.T) {
			dir := t.TempDir()
			contract(t, func() engine.Engine { return newEngine(dir) })
		})
	}
}

func TestStockGo(t *testing.T) {
	for name, newEngine := range engines() {
		t.Run(name, func(t *testing.T) { runStockGo(t, newEngine("")) })
	}
}

// The signatures of WASI are those of the library.
func TestSignaturesOfWASI(t *testing.T) {
	ctx := t.Context()
	r := wazeroruntime.NewRuntimeWithConfig(ctx, wazeroruntime.NewRuntimeConfigInterpreter())
	defer func() { _ = r.Close(context.Background()) }()
	library, err := wasi_snapshot_preview1.NewBuilder(r).Compile(ctx)
	if err != nil {
		t.Fatal(err)
	}
	functions := library.ExportedFunctions()
	for _, f := range imports.Functions() {
		if f.Module != wasi_snapshot_preview1.ModuleName {
			continue
		}
		theirs := functions[f.Name]
		if theirs == nil {
			t.Errorf("%s is none of WASI", f.Name)
			continue
		}
		delete(functions, f.Name)
		if !bytes.Equal(bytesOf(f.Params), theirs.ParamTypes()) || !bytes.Equal(bytesOf(f.Results), theirs.ResultTypes()) {
			t.Errorf("%s is %v to %v, not %v to %v", f.Name, f.Params, f.Results, theirs.ParamTypes(), theirs.ResultTypes())
		}
	}
	for name := range functions {
		t.Errorf("%s is missing", name)
	}
}

func bytesOf(types []imports.ValueType) []byte {
	converted := make([]byte, len(types))
	for i, valueType := range types {
		converted[i] = byte(valueType)
	}
	return converted
}

func newInstance(tb testing.TB, e engine.Engine, wasm []byte) engine.Instance {
	tb.Helper()
	m, err := e.Compile(tb.Context(), wasm, engine.ModuleConfig{MemoryLimitBytes: 1 << 20, Host: host(noHost)})
	if err != nil {
		tb.Fatal(err)
	}
	i, err := m.Instantiate(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx := context.Background()
		if err := errors.Join(i.Close(ctx), m.Close(ctx)); err != nil {
			tb.Error(err)
		}
	})
	return i
}

// BenchmarkCall is the cost of an op that does nothing but answer, and the same with
// wazero's own interruption instead of the meter's.
func BenchmarkCall(b *testing.B) {
	all := engines()
	all["wazero CloseOnContextDone"] = func(string) engine.Engine { return wazero.New(wazero.Options{CloseOnContextDone: true}) }
	for name, newEngine := range all {
		i := newInstance(b, newEngine(""), meteredFile(b, "convention.wasm"))
		for what, op := range map[string]abi.Op{"echo": opEcho, "empty": opSilent} {
			b.Run(name+" "+what, func(b *testing.B) { benchmarkCall(b, i, op, nil) })
		}
	}
}

// BenchmarkLoop is a loop of 100,000 turns.
func BenchmarkLoop(b *testing.B) {
	for name, newEngine := range engines() {
		i := newInstance(b, newEngine(""), arguments(b))
		b.Run(name, func(b *testing.B) { benchmarkCall(b, i, opLoop, words(100_000)) })
	}
}

func benchmarkCall(b *testing.B, i engine.Instance, op abi.Op, request []byte) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := i.Call(ctx, op, request); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInstantiate(b *testing.B) {
	for name, newEngine := range engines() {
		m, err := newEngine("").Compile(b.Context(), meteredFile(b, "convention.wasm"), engine.ModuleConfig{MemoryLimitBytes: 1 << 20, Host: host(noHost)})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				i, err := m.Instantiate(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				if err := i.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
		if err := m.Close(b.Context()); err != nil {
			b.Error(err)
		}
	}
}

func BenchmarkCompileSmall(b *testing.B) {
	wasm := meteredFile(b, "convention.wasm")
	for name, newEngine := range engines() {
		b.Run(name, func(b *testing.B) {
			e := newEngine("")
			for b.Loop() {
				m, err := e.Compile(b.Context(), wasm, engine.ModuleConfig{MemoryLimitBytes: 1 << 20, Host: host(noHost)})
				if err != nil {
					b.Fatal(err)
				}
				if err := m.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
