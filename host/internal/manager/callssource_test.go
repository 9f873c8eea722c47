package manager

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/calls"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// A shown call has neither the ids of its path nor a secret, even one that the
// manager learned later.
func TestCallsAreToldWithoutSecrets(t *testing.T) {
	log := calls.New()
	log.Add(calls.Call{
		Op: "lb_get", Object: "Service default/web", Host: "hunter2.example.com:443", Method: "GET",
		Path: "/v1/hunter2/4711", PathTemplate: "/v1/hunter2/*", Result: "2xx", Status: 200,
	}, "*.example.com")
	told := toldCalls{"main", func(s string) string { return strings.ReplaceAll(s, "hunter2", "[scrubbed]") }}
	c, n := told.call(log.Latest()[0]), told.count(log.Counts()[0])
	everything, err := json.Marshal([]any{c, n})
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"hunter2", "4711"} {
		if strings.Contains(string(everything), secret) {
			t.Errorf("%s is told: %s", secret, everything)
		}
	}
	if c.Number != 1 || c.Provider != "main" || c.Path != "/v1/[scrubbed]/*" || c.Object != "Service default/web" || n.Host != "*.example.com" || n.Calls != 1 {
		t.Errorf("%+v, %+v", c, n)
	}
}

// An answer is bounded, regardless of the number of providers and their requests.
func TestCallsAreBounded(t *testing.T) {
	var all v1alpha1.Calls
	begin := time.Now()
	for p := range 20 {
		log, told := calls.New(), toldCalls{fmt.Sprint("p", p), func(s string) string { return s }}
		for i := range calls.MaxCalls {
			long := strings.Repeat("\u1234", 4<<10) + fmt.Sprint(i)
			log.Add(calls.Call{
				Time: begin.Add(time.Duration(i)*time.Second + time.Duration(p)), Duration: time.Second,
				Op: "lb_get", Object: long, Host: long, Method: long, PathTemplate: long, Result: "2xx",
			}, long)
		}
		for _, c := range log.Latest() {
			all.Latest = append(all.Latest, told.call(c))
		}
		for _, n := range log.Counts() {
			all.Counts = append(all.Counts, told.count(n))
		}
	}
	boundCalls(&all)
	data, err := json.MarshalIndent(&all, "", "  ")
	if err != nil || len(data) > v1alpha1.MaxAnswer || len(all.Latest) != v1alpha1.MaxCalls || len(all.Counts) != v1alpha1.MaxCallCounts {
		t.Errorf("%d bytes, %d calls, %d counts: %v", len(data), len(all.Latest), len(all.Counts), err)
	}
	if first, last := all.Latest[0], all.Latest[len(all.Latest)-1]; first.Provider != "p19" || first.Number != calls.MaxCalls || first.At.Before(&last.At) {
		t.Errorf("the first is %d of %s at %v, the last at %v", first.Number, first.Provider, first.At, last.At)
	}
}
