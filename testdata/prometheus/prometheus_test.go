// Package prometheus_test reads the chart's alerts, its dashboard and its objects for the Prometheus operator as Prometheus and
// the operator do.
package prometheus_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

const chart = "../../deploy/chart"

func TestAlerts(t *testing.T) {
	var rule monitoringv1.PrometheusRule
	object(t, "PrometheusRule", &rule)
	groups, err := yaml.Marshal(rule.Spec)
	if err != nil {
		t.Fatal(err)
	}
	read, errs := rulefmt.Parse(groups, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.Default())
	if len(errs) > 0 || len(read.Groups) != 1 || len(read.Groups[0].Rules) < 5 {
		t.Fatalf("%v of\n%s", errs, groups)
	}
	for _, r := range read.Groups[0].Rules {
		if r.Alert == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
			t.Errorf("%+v", r)
		}
	}
}

func TestServiceMonitor(t *testing.T) {
	var monitor monitoringv1.ServiceMonitor
	object(t, "ServiceMonitor", &monitor)
	endpoint := monitor.Spec.Endpoints[0]
	if endpoint.Port != "https" || endpoint.Scheme.String() != "https" || endpoint.TLSConfig == nil || !*endpoint.TLSConfig.InsecureSkipVerify {
		t.Errorf("%+v", endpoint)
	}
	if monitor.Labels["release"] == "" {
		t.Error("no label of the Prometheus that is to select it")
	}
}

// Every panel asks what Prometheus understands and the manager exposes.
func TestDashboard(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(chart, "files", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &dashboard); err != nil || len(dashboard.Panels) < 5 {
		t.Fatalf("%d panels, %v", len(dashboard.Panels), err)
	}
	has := exposed(t)
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			check(t, has, panel.Title, target.Expr)
		}
	}
}

// object decodes one of the kind that the chart makes, strictly.
func object(t *testing.T, kind string, into any) {
	t.Helper()
	binary := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "helm")
	cmd := exec.CommandContext(t.Context(), binary, "template", "ccm", chart, "-f", chart+"/examples/monitoring.yaml")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: run `make helm`, and set KUBEBUILDER_ASSETS to build/bin", err)
	}
	for _, document := range bytes.Split(out, []byte("\n---\n")) {
		if bytes.Contains(document, []byte("\nkind: "+kind+"\n")) {
			if err := yaml.UnmarshalStrict(document, into); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no %s", kind)
}
