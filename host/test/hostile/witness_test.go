package hostile_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

const (
	witnessEvery = 10 * time.Millisecond
	memoryEvery  = 10 * time.Millisecond
	gcEvery      = 100 * time.Millisecond
)

// measured is what was seen while a hostile module ran.
type measured struct {
	// latencies of the witness, sorted. A call that comes late because the one
	// before took long counts from when it was due.
	latencies []time.Duration
	// errors of the witness.
	errors []error
	// startRSS and peakRSS are of the whole process, peakHeap is the heap in
	// use, all in bytes.
	startRSS, peakRSS, peakHeap uint64
	// gcPause is the longest time that one forced collection took.
	gcPause time.Duration
}

func (m *measured) percentile(p int) time.Duration {
	if len(m.latencies) == 0 {
		return 0
	}
	return m.latencies[min(len(m.latencies)-1, len(m.latencies)*p/100)]
}

func (m *measured) growth() int64 { return int64(m.peakRSS) - int64(m.startRSS) }

// watch calls the witness, samples the memory and collects garbage until stop
// is called, which returns what was seen.
func watch(tb testing.TB, witness *plugin.Slot) (stop func() *measured) {
	ctx, cancel := context.WithCancel(tb.Context())
	m := &measured{startRSS: residentBytes(tb)}
	var wg sync.WaitGroup
	wg.Go(func() { m.callWitness(ctx, witness) })
	wg.Go(func() { m.sampleMemory(ctx, tb) })
	wg.Go(func() { m.collect(ctx) })
	return func() *measured {
		cancel()
		wg.Wait()
		slices.Sort(m.latencies)
		return m
	}
}

func (m *measured) callWitness(ctx context.Context, witness *plugin.Slot) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for due := time.Now(); ; due = due.Add(witnessEvery) {
		timer.Reset(time.Until(due))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		answer := &abi.InstanceExistsResponse{}
		err := witness.Invoke(context.WithoutCancel(ctx), abi.OpInstanceExists, &abi.InstanceRequest{}, answer)
		if err == nil && answer.Existence != abi.Existence_EXISTENCE_EXISTS {
			err = fmt.Errorf("the witness answered %v", answer.Existence)
		}
		if err != nil {
			m.errors = append(m.errors, err)
		}
		m.latencies = append(m.latencies, time.Since(due))
	}
}

func (m *measured) sampleMemory(ctx context.Context, tb testing.TB) {
	ticker := time.NewTicker(memoryEvery)
	defer ticker.Stop()
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for {
		metrics.Read(heap)
		m.peakHeap = max(m.peakHeap, heap[0].Value.Uint64())
		m.peakRSS = max(m.peakRSS, residentBytes(tb))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// collect forces garbage collections: code that cannot be preempted once froze
// the whole process there.
func (m *measured) collect(ctx context.Context) {
	ticker := time.NewTicker(gcEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		start := time.Now()
		runtime.GC()
		m.gcPause = max(m.gcPause, time.Since(start))
	}
}

// residentBytes is the memory of this process that is in RAM.
func residentBytes(tb testing.TB) uint64 { return statusBytes(tb, "VmRSS:") }

// statusBytes is a size that /proc has of this process.
func statusBytes(tb testing.TB, field string) uint64 {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		tb.Error(err)
		return 0
	}
	_, rest, found := strings.Cut(string(data), field)
	fields := strings.Fields(rest)
	if !found || len(fields) == 0 {
		tb.Error("/proc/self/status has no " + field)
		return 0
	}
	kib, err := strconv.ParseUint(fields[0], 10, 64)
	if err != nil {
		tb.Error(err)
	}
	return kib << 10
}
