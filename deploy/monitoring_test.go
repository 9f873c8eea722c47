package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
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

// Each alert has the command to begin with, and a page of this repository.
func TestAlertsHaveANextStep(t *testing.T) {
	var alerts []struct {
		Alert       string
		Annotations struct {
			NextStep string `json:"next_step"`
			Page     string
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(chart, "files", "alerts.yaml"))), &alerts); err != nil {
		t.Fatal(err)
	}
	events := read(t, "EVENTS.md")
	for _, a := range alerts {
		if !regexp.MustCompile(`: (ccmctl|kubectl) `).MatchString(a.Annotations.NextStep) {
			t.Errorf("%s: the next step is %q, without a command", a.Alert, a.Annotations.NextStep)
		}
		for _, reason := range regexp.MustCompile(`reason=(\w+)`).FindAllStringSubmatch(a.Annotations.NextStep, -1) {
			if !strings.Contains(events, "`"+reason[1]+"`") {
				t.Errorf("%s: there is no Event %s", a.Alert, reason[1])
			}
		}
		if a.Annotations.Page == "" {
			t.Errorf("%s has no page", a.Alert)
		} else if err := follow(t, "../README.md", a.Annotations.Page); err != nil {
			t.Errorf("%s: %v", a.Alert, err)
		}
	}
}

// What an alert says to do holds in the namespace of the release, when typed as it is.
func TestAlertsNameTheNamespace(t *testing.T) {
	text := string(render(t, chart+"/examples/monitoring.yaml", "--namespace=clouds", "--show-only=templates/monitoring.yaml"))
	for _, command := range regexp.MustCompile(`ccmctl\s+(status|why|check|calls)[^;']*`).FindAllString(text, -1) {
		if !strings.Contains(command, "--manager-namespace clouds") {
			t.Errorf("%q asks a manager in kube-system", command)
		}
	}
	if strings.Contains(text, "kubectl -n kube-system") || !strings.Contains(text, "kubectl -n clouds") {
		t.Error("a command of kubectl is for kube-system")
	}
}
