package meter_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestReport prints what the meter costs beside no interruption at all and
// beside the runtime's own, for make bench. It asserts nothing: machines are
// noisy, and a timed test is a flaky one.
func TestReport(t *testing.T) {
	if os.Getenv("BENCH_REPORT") == "" {
		t.Log("make bench prints the report")
		return
	}
	for _, of := range []struct {
		name, file, export string
		arg                uint64
		reach              string
	}{
		{"an empty call", "testdata/bench.wasm", "empty", 0, "50ns more than unmetered"},
		{"a loop of 100,000", "testdata/bench.wasm", "sum", 100_000, "3 times unmetered"},
		{"decoding 278 KB of JSON, TinyGo", filepath.Join(buildDir(), "json.wasm"), "decode", 0, "1.6 times unmetered"},
	} {
		wasm, err := os.ReadFile(of.file)
		if err != nil {
			t.Fatalf("%v: make bench builds it", err)
		}
		best := map[string]time.Duration{}
		for range 3 { // by turns, so that a busy moment hits all of them
			for _, v := range variants() {
				took := perCall(v, wasm, of.export, of.arg)
				if known, ok := best[v.name]; !ok || took < known {
					best[v.name] = took
				}
			}
		}
		unmetered, metered, closing := best["unmetered"], best["metered"], best["close-on-done"]
		t.Logf("%s: unmetered %v, metered %v (%v more, %.2f times), close-on-context-done %v (%.1f times); to reach: %s",
			of.name, unmetered, metered, metered-unmetered, float64(metered)/float64(unmetered), closing, float64(closing)/float64(unmetered), of.reach)
	}
}

func perCall(v variant, wasm []byte, export string, arg uint64) time.Duration {
	return time.Duration(testing.Benchmark(func(b *testing.B) {
		big := options
		big.MaxMemoryPages, big.MaxTableElements = 1<<10, 1<<20
		f := v.start(b, wasm, big).ExportedFunction(export)
		ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
		defer cancel()
		stack := make([]uint64, 4)
		for b.Loop() {
			call(ctx, b, f, stack, arg)
		}
	}).NsPerOp())
}
