package conformance_test

import (
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/conformance"
)

// The summary names the guest, or says that there is none, and explains how to
// find the line of a crash if it is missing.
func TestSummary(t *testing.T) {
	const hint = "GUEST_DEBUG=1"
	crash := []string{"lb_ensure: internal: the guest trapped: wasm error: unreachable", "  it wrote: panic: runtime error: assignment to entry in nil map"}
	withLine := append(crash[:1:1], "  it wrote: panic: assignment to entry in nil map; main.f(...);  example.com/mycloud/lb.go:52")
	tests := map[string]struct {
		report conformance.Report
		begins string
		hint   bool
	}{
		"a guest":           {conformance.Report{Guest: "nimbus", Version: "0.1.0"}, "nimbus 0.1.0: 0 passed", false},
		"none":              {conformance.Report{}, "the module, which does not load: 0 passed", false},
		"a crash":           {conformance.Report{Guest: "nimbus", Version: "1", Results: []conformance.Result{{Evidence: crash}}}, "nimbus 1: ", true},
		"a crash, its line": {conformance.Report{Guest: "nimbus", Version: "1", Results: []conformance.Result{{Evidence: withLine}}}, "nimbus 1: ", false},
	}
	for name, test := range tests {
		var out strings.Builder
		if err := test.report.WriteSummary(&out); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); !strings.HasPrefix(text, test.begins) || strings.Contains(text, hint) != test.hint {
			t.Errorf("%s: %q", name, text)
		}
	}
}
