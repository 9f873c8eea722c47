package conformance_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/conformance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wazero"
)

// built reads a guest from the build directory.
func built(tb testing.TB, name string) []byte {
	tb.Helper()
	dir := os.Getenv("CCM_BUILD")
	if dir == "" {
		dir = filepath.Join("..", "..", "build")
	}
	return file(tb, filepath.Join(dir, name))
}

func testdata(tb testing.TB, name string) []byte {
	tb.Helper()
	return file(tb, filepath.Join("..", "..", "testdata", "conformance", name))
}

func file(tb testing.TB, path string) []byte {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatalf("%v; run make guests guests-test", err)
	}
	return data
}

func cases(tb testing.TB, name string) conformance.Cases {
	tb.Helper()
	c, err := conformance.ParseCases(testdata(tb, name))
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func run(tb testing.TB, o conformance.Options) conformance.Report {
	tb.Helper()
	report, err := conformance.Run(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	return report
}

func staticOptions(tb testing.TB) conformance.Options {
	return conformance.Options{
		Module: built(tb, "static.wasm"), Config: testdata(tb, "static-inventory.yaml"),
		Cases:        cases(tb, "static.yaml"),
		Engine:       wazero.New(wazero.Options{CacheDir: tb.TempDir()}),
		FaultTimeout: 200 * time.Millisecond,
	}
}

// TestStaticConforms: this project's own provider passes every clause that
// applies without a network.
func TestStaticConforms(t *testing.T) {
	report := run(t, staticOptions(t))
	out := &strings.Builder{}
	if err := report.WriteText(out); err != nil {
		t.Fatal(err)
	}
	t.Log(out)
	if !report.Passed() || report.Guest != "static" {
		t.Error("static does not conform")
	}
}

func TestExampleOfCasesIsValid(t *testing.T) {
	c := cases(t, "example.yaml")
	if len(c.Services) != 1 || c.ForeignVolume == nil || len(c.Volumes) != 1 || c.UnknownNode.Name == "" {
		t.Errorf("%+v", c)
	}
}
