package differential_test

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"
)

// BenchmarkValidate measures how long each reader takes to say that a guest is
// valid, and by how much the process grows meanwhile, the engine's own memory
// included. wazero has no way to validate without compiling.
func BenchmarkValidate(b *testing.B) {
	for _, g := range guests(b) {
		ours := reader(validatorReader{})
		for _, r := range append([]reader{ours}, validators(b)...) {
			b.Run(g.name+"/"+r.name(), func(b *testing.B) {
				runtime.GC()
				debug.FreeOSMemory()
				before, reset := peak(b, "VmRSS"), os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
				start, n := processor(b), 0
				for ; b.Loop(); n++ {
					if err := r.accepts(g.wasm); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(processor(b)-start)/1e6/float64(n), "cpu-ms/op")
				if reset == nil {
					b.ReportMetric(float64(peak(b, "VmHWM")-before)/1024, "MiB-grown")
				}
			})
		}
	}
}

// validatorReader is our decoder and validator, without the meter.
type validatorReader struct{ reader }

func (validatorReader) name() string              { return "wasmbin" }
func (validatorReader) accepts(wasm []byte) error { return validate(wasm) }

// processor is the time that the process has used of all processors, in
// nanoseconds: unlike the time on the wall, it is the same on a busy machine.
func processor(tb testing.TB) int64 {
	tb.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// peak reads a line of /proc/self/status, in KiB.
func peak(tb testing.TB, key string) int {
	tb.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		tb.Fatal(err)
	}
	found := regexp.MustCompile(fmt.Sprintf(`%s:\s+(\d+) kB`, key)).FindSubmatch(status)
	if found == nil {
		tb.Fatalf("no %s in /proc/self/status", key)
	}
	n, _ := strconv.Atoi(string(found[1]))
	return n
}
