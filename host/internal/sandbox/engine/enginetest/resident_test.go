package enginetest

import (
	"fmt"
	"os"
	"runtime"
	"testing"
)

// resident is the process's memory as the system counts it, or if unavailable, as Go does.
func resident(t *testing.T) uint64 {
	t.Helper()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapInuse
	}
	var size, pages uint64
	if _, err := fmt.Sscan(string(statm), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * uint64(os.Getpagesize())
}
