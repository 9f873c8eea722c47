package meter_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
)

// watch is a host that notes the longest processor time between two looks at the clock.
type watch struct {
	tank    int64
	last    time.Duration
	longest time.Duration
	asked   int
}

// threadTime is the processor time of this thread: what others do to a busy
// machine is not the guest's.
func threadTime() time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var usage syscall.Rusage
	if err := syscall.Getrusage(thread, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func (w *watch) refuel(_ context.Context, stack []uint64) {
	w.look()
	if int64(stack[0]) == meter.FuelCallDepth {
		panic(errCallDepth)
	}
	stack[0] = uint64(w.tank)
}

func (w *watch) look() {
	w.asked++
	now := threadTime()
	w.longest = max(w.longest, now-w.last)
	w.last = now
}

// holding runs the exports of a module one after the other, and returns the
// instance.
func holding(tb testing.TB, w *watch, wasm []byte, exports ...string) api.Module {
	tb.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx := context.Background()
	large := options
	large.MaxMemoryPages, large.MaxTableElements = 1<<10, 1<<20
	wasm, err := meter.Rewrite(wasm, large)
	if err != nil {
		tb.Fatal(err)
	}
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler())
	tb.Cleanup(func() { r.Close(ctx) })
	_, err = r.NewHostModuleBuilder(options.ImportModule).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(w.refuel), []api.ValueType{api.ValueTypeI64}, []api.ValueType{api.ValueTypeI64}).Export(options.ImportName).
		Instantiate(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	m, err := r.Instantiate(ctx, wasm)
	if err != nil {
		tb.Fatal(err)
	}
	for _, export := range exports {
		w.last = threadTime()
		f := m.ExportedFunction(export)
		if _, err := f.Call(ctx, make([]uint64, len(f.Definition().ParamTypes()))...); err != nil && export != "recurse" {
			tb.Fatal(fmt.Errorf("%s: %w", export, err))
		}
		w.look()
	}
	return m
}

func holdModule(tb testing.TB) []byte {
	tb.Helper()
	wasm, err := os.ReadFile("testdata/hold.wasm")
	if err != nil {
		tb.Fatal(err)
	}
	return wasm
}

func TestLongOperationsAskInTheMiddle(t *testing.T) {
	for _, test := range []struct {
		name    string
		exports []string
		asked   int
	}{
		{"fill of 64 MiB", []string{"grow_at_once", "fill"}, 64},
		{"copy of 64 MiB", []string{"grow_at_once", "copy_up"}, 63},
		{"growing by a page at a time", []string{"grow_by_pages"}, 127},
	} {
		w := &watch{tank: 1 << 16} // half a MiB
		holding(t, w, holdModule(t), test.exports...)
		if w.asked < test.asked {
			t.Errorf("%s: the host was asked %d times, want at least %d", test.name, w.asked, test.asked)
		}
	}
}

func TestLongFunctionAsksInTheMiddle(t *testing.T) {
	// A million instructions without a loop, in a branch and behind it.
	code := []byte{0, 0x41, 0, 0x04, 0x40}
	for range 250_000 {
		code = append(code, 0x41, 0, 0x1a)
	}
	code = append(code, 0x05)
	for range 250_000 {
		code = append(code, 0x41, 0, 0x1a)
	}
	code = append(code, 0x0b, 0x0b)
	body := append(leb(1), append(leb(len(code)), code...)...)
	wasm := []byte("\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x07\x05\x01\x01f\x00\x00\x0a")
	wasm = append(append(wasm, leb(len(body))...), body...)
	w := &watch{tank: 1}
	holding(t, w, wasm, "f")
	// Only the branch that runs is paid for in pieces.
	if w.asked < 500_000>>15 || w.asked > 500_000>>15+4 {
		t.Errorf("the host was asked %d times", w.asked)
	}
}

// BenchmarkLongestHold tells how long one shape of code holds the processor, and
// with it Go's scheduler and collector, between two looks at the clock.
func BenchmarkLongestHold(b *testing.B) {
	for _, tank := range []int64{1 << 18, 1 << 21} {
		for _, exports := range [][]string{
			{"grow_at_once"}, {"grow_by_pages"}, {"grow_at_once", "fill"}, {"grow_at_once", "fill", "copy_up"},
			{"grow_table"}, {"grow_table", "fill_table", "copy_table"}, {"grow_at_once", "link", "chase"},
			{"divide"}, {"recurse"}, {"indirect"}, {"grow_nothing"},
		} {
			b.Run(fmt.Sprintf("%s/tank-%d", exports[len(exports)-1], tank), func(b *testing.B) {
				w := &watch{tank: tank}
				for b.Loop() {
					holding(b, w, holdModule(b), exports...)
				}
				b.ReportMetric(float64(w.longest.Microseconds())/1000, "ms-longest")
			})
		}
	}
}
