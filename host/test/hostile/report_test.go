package hostile_test

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// report is the table of what was measured, one row for each case.
type report struct{ rows []row }

type row struct {
	name, phase                    string
	calls                          int
	p50, p99, longest, pause, late time.Duration
	growth, heap                   int64
}

func (r *report) add(c *hostileCase, m *measured, late time.Duration) {
	r.rows = append(r.rows, row{
		name: c.title, phase: c.phase, calls: len(m.latencies),
		p50: m.percentile(50), p99: m.percentile(99), longest: m.percentile(100), pause: m.gcPause, late: late,
		growth: m.growth() >> 20, heap: int64(m.peakHeap >> 20),
	})
}

// print logs the table, which go test shows with -v.
func (r *report) print(tb testing.TB) {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "case\tends at\tcalls\tp50\tp99\tlongest\tlongest GC\tlate\tgrowth MiB\theap MiB\t")
	for _, r := range r.rows {
		ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t\n", r.name, r.phase, r.calls, ms(r.p50), ms(r.p99), ms(r.longest), ms(r.pause), ms(r.late), r.growth, r.heap)
	}
	if err := w.Flush(); err != nil {
		tb.Error(err)
	}
	tb.Logf("a second provider, called every %v:\n%s", witnessEvery, text.String())
}
