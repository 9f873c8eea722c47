package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// footprint is what a manager takes while it has nothing but metadata to do.
type footprint struct {
	goroutines, heap, resident float64 // number, bytes, bytes
	stacks                     map[string]int
}

func (u footprint) String() string {
	return fmt.Sprintf("%.0f goroutines, %.2f MiB of heap, %.1f MiB resident", u.goroutines, u.heap/(1<<20), u.resident/(1<<20))
}

// lasting are the goroutines but for those of connections to servers. How many
// of these are open depends on how many requests there were at once; the pools
// have a bound, and mostConnections is above it.
func (u footprint) lasting() float64 {
	return u.goroutines - float64(u.stacks[readLoop]+u.stacks[writeLoop])
}

const (
	readLoop        = "net/http.(*persistConn).readLoop"
	writeLoop       = "net/http.(*persistConn).writeLoop"
	mostConnections = 64
)

// compare: the heap alone is compared with the second look. Between the first
// one and it client-go's caches of Events fill, which have a bound.
func (u footprint) compare(t *testing.T, first, second footprint) {
	t.Helper()
	t.Logf("heap: %.3f times that after %d replacements", u.heap/first.heap, firstMeasure)
	for _, m := range []struct {
		what       string
		after      int
		now, first float64
	}{
		{"goroutines", firstMeasure, u.lasting(), first.lasting()},
		{"resident memory", firstMeasure, u.resident, first.resident},
		{"heap", secondMeasure, u.heap, second.heap},
	} {
		limit := bound(leakRatio, leakRatioShared)
		t.Logf("%s: %.3f times that after %d replacements (to reach: %.2f, at most %.2f here)", m.what, m.now/m.first, m.after, leakRatio, limit)
		if m.now > limit*m.first {
			t.Errorf("%s: %.0f, and %.0f before", m.what, m.now, m.first)
		}
	}
	if n := u.stacks[readLoop]; n > mostConnections {
		t.Errorf("%d connections are open", n)
	}
	if t.Failed() {
		for _, where := range slices.Sorted(maps.Keys(u.stacks)) {
			if u.stacks[where] != first.stacks[where] {
				t.Logf("goroutines begun by %s: %d, and %d before", where, u.stacks[where], first.stacks[where])
			}
		}
	}
}

var (
	// Right behind the collection: /metrics would count its own garbage.
	heapAlloc  = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)
	stackCount = regexp.MustCompile(`(?m)^(\d+) @`)
	stackLine  = regexp.MustCompile(`(?m)^#\t\S+\t(\S+)\+0x`)
)

// stacks counts the goroutines by the function that each began with.
func (r *rig) stacks(t *testing.T, m *manager) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, record := range strings.Split(r.profile(t, m, "goroutine?debug=1"), "\n\n") {
		count, lines := stackCount.FindStringSubmatch(record), stackLine.FindAllStringSubmatch(record, -1)
		if count == nil || len(lines) == 0 {
			continue
		}
		n, err := strconv.Atoi(count[1])
		if err != nil {
			t.Fatal(err)
		}
		counts[lines[len(lines)-1][1]] += n
	}
	return counts
}

func (r *rig) profile(t *testing.T, m *manager, name string) string {
	t.Helper()
	response, err := r.scrape.Get("https://" + m.secure + "/debug/pprof/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxMetrics))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// footprint is the least of several looks, each behind a garbage collection, which
// the profile of the heap forces: between them ops come and go.
func (r *rig) footprint(ctx context.Context, t *testing.T, m *manager) footprint {
	t.Helper()
	least := footprint{math.Inf(1), math.Inf(1), math.Inf(1), nil}
	for range 20 {
		heap := heapAlloc.FindStringSubmatch(r.profile(t, m, "heap?gc=1&debug=1"))
		if heap == nil {
			t.Fatal("the profile of the heap does not say HeapAlloc")
		}
		bytes, err := strconv.ParseFloat(heap[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		least.heap = min(least.heap, bytes)
		all := r.metrics(t, m)
		least.goroutines = min(least.goroutines, all["go_goroutines"])
		least.resident = min(least.resident, all["process_resident_memory_bytes"])
		select {
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		case <-time.After(250 * time.Millisecond): // the runtime returns memory bit by bit
		}
	}
	least.stacks = r.stacks(t, m)
	return least
}
