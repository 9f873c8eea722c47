package wazero_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/engine"
	"github.com/wasm-ccm/wasm-ccm/host/engine/enginetest"
	"github.com/wasm-ccm/wasm-ccm/host/engine/wazero"
	"github.com/wasm-ccm/wasm-ccm/host/meter"
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

// The runtime of stock Go finds in WASI what it needs, and no more.
func TestStockGo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "guest.wasm")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildmode=c-shared", "-ldflags=-s -w", "-o", file, "./testdata/stockgo")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the guest: %v\n%s", err, out)
	}
	wasm, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	metered, err := meter.Rewrite(wasm, meter.Options{
		ImportModule: engine.RefuelModule, ImportName: engine.RefuelName, MaxMemoryPages: 1 << 12, MaxTableElements: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	i := newInstance(t, wazero.Options{}, metered, engine.ModuleConfig{MemoryLimitBytes: 256 << 20, Stdout: &out, Stderr: os.Stderr})
	for range 3 {
		out.Reset()
		got, err := i.Call(t.Context(), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := "slept true, environment 0, file false"; string(got.Response) != want {
			t.Errorf("the guest says %q, want %q", got.Response, want)
		}
		if want := "args 1 random true\n"; out.String() != want {
			t.Errorf("the guest wrote %q, want %q", out.String(), want)
		}
	}
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
