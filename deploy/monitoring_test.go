package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// The alerts and the dashboard ask for metrics that the manager has. That
// Prometheus understands what they ask is shown in testdata/prometheus.
func TestMonitoringAsksForMetricsThatExist(t *testing.T) {
	depend(t)
	files, err := filepath.Glob("../host/internal/manager/metrics/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d sources, %v", len(files), err)
	}
	known := map[string]bool{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?:Vec\(\s*|Name:\s+)"([a-z_]+)"`).FindAllStringSubmatch(string(source), -1) {
			known["wasm_ccm_"+m[1]] = true
		}
	}
	for _, name := range []string{"alerts.yaml", "dashboard.json"} {
		text, err := os.ReadFile(filepath.Join(chart, "files", name))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`wasm_ccm_[a-z_]+`).FindAllString(string(text), -1)
		if len(found) < 8 {
			t.Errorf("%s: only %d metrics", name, len(found))
		}
		for _, metric := range found {
			histogram := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(metric, "")
			if !known[metric] && !known[histogram] {
				t.Errorf("%s: the manager has no metric %s", name, metric)
			}
		}
	}
}
