package enginetest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

// runStockGo builds a guest with stock Go and runs it: WASI offers what Go's runtime needs,
// and no more.
func runStockGo(t *testing.T, e engine.Engine) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "guest.wasm")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildmode=c-shared", "-ldflags=-s -w", "-o", file, "./testdata/stockgo")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the guest: %v\n%s", err, out)
	}
	wasm, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	m, err := e.Compile(t.Context(), metered(t, wasm), engine.ModuleConfig{
		MemoryLimitBytes: 256 << 20, Host: host(noHost), Stdout: &out, Stderr: os.Stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	i := instantiate(t, m)
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
