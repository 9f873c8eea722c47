package calls_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/calls"
)

func TestLatestAreBoundedAndNewestFirst(t *testing.T) {
	l := calls.New()
	for i := range 3*calls.MaxCalls + 7 {
		l.Add(calls.Call{Op: "probe", Status: i}, "h:443")
		latest := l.Latest()
		if len(latest) != min(i+1, calls.MaxCalls) || latest[0].Status != i || latest[len(latest)-1].Status != i+1-len(latest) {
			t.Fatalf("after %d: %d, from %d to %d", i+1, len(latest), latest[0].Status, latest[len(latest)-1].Status)
		}
	}
}

// A provider that sends each request to another path gets a bounded number of
// label values.
func TestKindsOfCallsAreBounded(t *testing.T) {
	l := calls.New()
	seen := map[calls.Kind]bool{}
	for i := range 10_000 {
		seen[l.Add(calls.Call{Op: "lb_get", Method: fmt.Sprint("M", i), PathTemplate: fmt.Sprint("/", i), Result: "2xx", Duration: time.Second}, "h:443")] = true
	}
	if len(seen) != calls.MaxKinds+1 || len(l.Counts()) != len(seen) {
		t.Fatalf("%d kinds, %d counted", len(seen), len(l.Counts()))
	}
	most := l.Counts()[0]
	if most.Op != calls.Other || most.Host != "h:443" || most.PathTemplate != calls.Other || most.Calls != 10_000-calls.MaxKinds || most.Longest != time.Second {
		t.Errorf("%+v", most)
	}
	if known := l.Add(calls.Call{Op: "lb_get", Method: "M1", PathTemplate: "/1", Result: "2xx"}, "h:443"); known.PathTemplate != "/1" {
		t.Errorf("a kind of before is %+v", known)
	}
}
