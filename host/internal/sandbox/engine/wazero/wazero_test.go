package wazero_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"

	wazeroruntime "github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/enginetest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/imports"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wazero"
)

func TestContract(t *testing.T) {
	enginetest.Run(t, func() engine.Engine { return wazero.New(wazero.Options{}) })
}

func TestContractWithCompilationCache(t *testing.T) {
	dir := t.TempDir()
	enginetest.Run(t, func() engine.Engine { return wazero.New(wazero.Options{CacheDir: dir}) })
}

// noHost answers nothing.
type noHost struct{}

func (noHost) HostCall(context.Context, string, []byte) (abi.Code, []byte) {
	return abi.CodeDenied, nil
}

func newInstance(tb testing.TB, options wazero.Options, wasm []byte, config engine.ModuleConfig) engine.Instance {
	tb.Helper()
	config.Host = noHost{}
	e := wazero.New(options)
	m, err := e.Compile(tb.Context(), wasm, config)
	if err != nil {
		tb.Fatal(err)
	}
	i, err := m.Instantiate(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx := context.Background()
		if err := i.Close(ctx); err != nil {
			tb.Error(err)
		}
		if err := m.Close(ctx); err != nil {
			tb.Error(err)
		}
	})
	return i
}

func TestStockGo(t *testing.T) {
	enginetest.RunStockGo(t, wazero.New(wazero.Options{}))
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

// BenchmarkCall is the cost of an op that does nothing but answer, and the
// same with wazero's own interruption instead of the meter's.
func BenchmarkCall(b *testing.B) {
	for name, options := range map[string]wazero.Options{
		"metered":            {},
		"CloseOnContextDone": {CloseOnContextDone: true},
	} {
		b.Run(name, func(b *testing.B) {
			i := newInstance(b, options, enginetest.Metered(b, "convention.wasm"), engine.ModuleConfig{MemoryLimitBytes: 1 << 20})
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := i.Call(ctx, 1, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLoop is a loop of 100,000 turns.
func BenchmarkLoop(b *testing.B) {
	i := newInstance(b, wazero.Options{}, enginetest.Arguments(b), engine.ModuleConfig{MemoryLimitBytes: 1 << 20})
	request := append(binary.LittleEndian.AppendUint32(nil, 100_000), make([]byte, 16)...)
	for b.Loop() {
		if _, err := i.Call(b.Context(), enginetest.OpLoop, request); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInstantiate(b *testing.B) {
	e := wazero.New(wazero.Options{})
	ctx := b.Context()
	m, err := e.Compile(ctx, enginetest.Metered(b, "convention.wasm"), engine.ModuleConfig{MemoryLimitBytes: 1 << 20, Host: noHost{}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = m.Close(context.Background()) }()
	for b.Loop() {
		i, err := m.Instantiate(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if err := i.Close(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompileSmall(b *testing.B) {
	e := wazero.New(wazero.Options{})
	wasm := enginetest.Metered(b, "convention.wasm")
	for b.Loop() {
		m, err := e.Compile(b.Context(), wasm, engine.ModuleConfig{MemoryLimitBytes: 1 << 20, Host: noHost{}})
		if err != nil {
			b.Fatal(err)
		}
		if err := m.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
