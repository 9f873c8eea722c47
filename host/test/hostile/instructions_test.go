package hostile_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/imports"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// mostKept is what a million executions of an instruction may leave in the
// process, in bytes: noise of the collector.
const mostKept = 3 << 20

// tankTime is how long a tank may last, and so how long a guest is not looked
// at.
const tankTime = 13 * time.Millisecond

// kept is what a million executions of one sample left behind.
type kept struct {
	sample
	heap, anonymous int64
	// each is the time of one execution, with its operands, perFuel that of one
	// unit of fuel, both in ns.
	each, perFuel float64
}

// tank is the time of a tank that is used up by the sample.
func (k *kept) tank() time.Duration { return time.Duration(k.perFuel * engine.Tank) }

// TestInstructionsKeepNothing runs every instruction a million times in one
// instance.
func TestInstructionsKeepNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	imported := slices.DeleteFunc(imports.Functions(), func(f imports.Function) bool { return f.Module == engine.RefuelModule })
	allowed := slices.DeleteFunc(samples(imported), func(s sample) bool { return s.op == wasmbin.OpRefFunc })
	wasm, err := meter.Rewrite(samplesModule(imported, allowed), meterOptions())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) {
			rows := keptBy(t, e.make(""), wasm, allowed)
			for _, r := range rows {
				if r.heap > mostKept || r.anonymous > mostKept {
					t.Errorf("a million %s keep %d KiB of Go's heap, %d KiB in all", r.name, r.heap>>10, r.anonymous>>10)
				}
				if r.tank() > tankTime && strict() {
					t.Errorf("a tank of %s lasts %v, must be at most %v", r.name, r.tank(), tankTime)
				}
			}
			printKept(t, rows)
		})
	}
}

// TestInstructionsUncontained is the same without the meter: it shows that the
// one above can fail. What leaks there, the meter refuses.
func TestInstructionsUncontained(t *testing.T) {
	all := samples(nil)
	wasm := samplesModule(nil, all)
	if _, err := meter.Rewrite(wasm, meterOptions()); err == nil || !strings.Contains(err.Error(), "ref.func in a function") {
		t.Errorf("with ref.func in a function: error %v", err)
	}
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) {
			rows := keptBy(t, e.make(""), wasm, all)
			for _, r := range rows {
				if leaks := e.name == "wazero" && r.op == wasmbin.OpRefFunc; leaks != (max(r.heap, r.anonymous) > mostKept) {
					t.Errorf("a million %s keep %d KiB of Go's heap, %d KiB in all; it leaks: %t", r.name, r.heap>>10, r.anonymous>>10, leaks)
				}
			}
			printKept(t, rows)
		})
	}
}

// TestSamplesAreComplete checks that no instruction is left out.
func TestSamplesAreComplete(t *testing.T) {
	seen := map[wasmbin.Opcode]bool{}
	for _, s := range samples(imports.Functions()) {
		if !runs(s) {
			t.Errorf("the sample of %s does not contain it: % x", s.name, s.code)
		}
		seen[s.op] = true
	}
	for _, op := range wasmbin.Opcodes() {
		if !seen[op] {
			t.Errorf("no sample for %s (%s)", op.Spec().Name, op)
		}
	}
}

// runs tells whether the code of a sample contains its instruction. return is
// in a function that it calls.
func runs(s sample) bool {
	r, in := &wasmbin.Reader{Data: s.code}, wasmbin.Instruction{}
	for r.More() {
		r.Instruction(&in)
		if in.Op == s.op || s.op == wasmbin.OpReturn && in.Op == wasmbin.OpCall {
			return true
		}
	}
	return false
}

// keptBy runs each sample, and again where something seems to be kept: what
// is noise does not repeat.
func keptBy(t *testing.T, e engine.Engine, wasm []byte, all []sample) (rows []kept) {
	t.Helper()
	m, err := e.Compile(t.Context(), wasm, engine.ModuleConfig{MemoryLimitBytes: memoryLimit, Host: newWorld(true).host})
	if err != nil {
		t.Fatal(err)
	}
	i, err := m.Instantiate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := settled(t)
	for op, s := range all {
		row := keptOnce(t, i, abi.Op(op), s, &before)
		for try := 0; try < 3 && (max(row.heap, row.anonymous) > mostKept || row.tank() > tankTime); try++ {
			again := keptOnce(t, i, abi.Op(op), s, &before)
			row.heap, row.anonymous = min(row.heap, again.heap), min(row.anonymous, again.anonymous)
			row.perFuel, row.each = min(row.perFuel, again.perFuel), min(row.each, again.each)
		}
		rows = append(rows, row)
	}
	if err := i.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return rows
}

// keptOnce runs a sample. before is what the process held, and what it holds
// afterwards.
func keptOnce(t *testing.T, i engine.Instance, op abi.Op, s sample, before *held) kept {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	start := time.Now()
	answer, err := i.Call(ctx, op, nil)
	took := float64(time.Since(start))
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	after := settled(t)
	row := kept{sample: s, heap: after.heap - before.heap, anonymous: after.anonymous - before.anonymous, each: took / float64(s.times)}
	if answer.Fuel > 0 {
		row.perFuel = took / float64(answer.Fuel)
	}
	*before = after
	return row
}

// held is what the process holds: in Go's heap, and in all memory that is
// backed by no file.
type held struct{ heap, anonymous int64 }

// settled is what is held when nothing waits for the collector.
func settled(t *testing.T) held {
	t.Helper()
	debug.FreeOSMemory() // collects, too
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return held{int64(stats.HeapAlloc), int64(statusBytes(t, "RssAnon:"))}
}

// meterOptions are those of the manager.
func meterOptions() meter.Options {
	return meter.Options{
		ImportModule: engine.RefuelModule, ImportName: engine.RefuelName,
		MaxMemoryPages: memoryLimit >> 16, MaxTableElements: tableLimit, MaxStackBytes: engine.StackBytes,
	}
}

// strict tells whether the machine does nothing else, so that times count.
func strict() bool { return os.Getenv("HOSTILE_STRICT") == "1" }

// printKept logs the table, what keeps most first.
func printKept(t *testing.T, rows []kept) {
	slices.SortStableFunc(rows, func(a, b kept) int { return int(max(b.heap, b.anonymous) - max(a.heap, a.anonymous)) })
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "instruction\theap KiB\tanonymous KiB\tns each\tns per fuel\t")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%.2f\t\n", r.name, r.heap>>10, r.anonymous>>10, r.each, r.perFuel)
	}
	w.Flush()
	t.Logf("per million executions, %d of a host function:\n%s", importTimes, text.String())
}
