package metrics_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/prometheus/common/expfmt"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// exposition is read by the tests of alerts and dashboard, which are in a
// module of their own.
const exposition = "../../../../testdata/prometheus/metrics.txt"

// The file has each metric with its labels in Prometheus' format. UPDATE=1 writes it.
func TestExposition(t *testing.T) {
	m, registry := newRegistry()
	m.ConfigRejected(true)
	m.Tell(toldOf("a"))
	touch(t, m.Provider("a"))
	m.Provider("a").Rollout().SourceUnavailable("RegistryUnavailable")
	listing := m.Provider("a").Listing()
	listing.Listed(1)
	listing.Answered(abi.OpInstanceExists, "listing")
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var now bytes.Buffer
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&now, family); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(exposition, now.Bytes(), 0o644); err != nil { //nolint:gosec // a source file is public
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(exposition)
	if err != nil || !bytes.Equal(kept, now.Bytes()) {
		t.Errorf("%s is not what the manager has (%v): run UPDATE=1 go test -run TestExposition ./host/internal/manager/metrics", exposition, err)
	}
}
