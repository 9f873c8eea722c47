package prometheus_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// exposed are the names of what the manager exposes, each with its labels: metrics.txt is
// what the manager's own metrics write, and a test there compares it.
func exposed(t *testing.T) map[string][]string {
	t.Helper()
	file, err := os.Open("metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	reader := expfmt.NewTextParser(model.UTF8Validation)
	families, err := reader.TextToMetricFamilies(file)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for name, family := range families {
		var has []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			has = append(has, label.GetName())
		}
		if family.GetMetric()[0].GetHistogram() != nil {
			all[name+"_sum"], all[name+"_count"], all[name+"_bucket"] = has, has, append(slices.Clone(has), "le")
			continue
		}
		all[name] = has
	}
	return all
}

// check finds metrics and labels in an expression that the manager does not expose.
func check(t *testing.T, has map[string][]string, what, expr string) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(strings.ReplaceAll(expr, "$__rate_interval", "5m"))
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	known := map[string]bool{}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			names, ok := has[s.Name]
			if !ok {
				t.Errorf("%s: the manager has no metric %s", what, s.Name)
			}
			for _, name := range names {
				known[name] = true
			}
			for _, m := range s.LabelMatchers {
				if m.Name != model.MetricNameLabel && !slices.Contains(names, m.Name) {
					t.Errorf("%s: %s has no label %s", what, s.Name, m.Name)
				}
			}
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if a, ok := node.(*parser.AggregateExpr); ok {
			for _, name := range a.Grouping {
				if !known[name] {
					t.Errorf("%s: nothing in it has the label %s", what, name)
				}
			}
		}
		return nil
	})
}

// bad are states in which the alerts fire, as series with a value each minute, and healthy ones in which they do not. What a
// manager in that state exposes is asserted by a script with a real one, where there is one.
var bad = map[string]struct {
	bad, healthy string
	script       string
}{
	"WasmCCMNotServing":           {`wasm_ccm_provider_generation{provider="a"} 0x30`, `wasm_ccm_provider_generation{provider="a"} 1x30`, ""},
	"WasmCCMNoLeader":             {`wasm_ccm_leads 0x30`, `wasm_ccm_leads 1x30`, ""},
	"WasmCCMObjectsStuck":         {`wasm_ccm_stuck{kind="Service",provider="a",reason="Refused"} 5 5 0 5 5 0 5x25`, `wasm_ccm_stuck{kind="Service",provider="a",reason="Refused"} 5x12 0x20`, ""},
	"WasmCCMNotDurable":           {`wasm_ccm_provider_condition{condition="Durable",provider="a"} 0x30`, `wasm_ccm_provider_condition{condition="Durable",provider="a"} 1x30`, ""},
	"WasmCCMCertificateEnds":      {`wasm_ccm_serving_certificate_end_timestamp_seconds 1000000x90`, `wasm_ccm_serving_certificate_end_timestamp_seconds 2000000x90`, ""},
	"WasmCCMDeletionBrakeEngaged": {`wasm_ccm_deletion_brake_engaged{provider="a"} 1x30`, `wasm_ccm_deletion_brake_engaged{provider="a"} 0x30`, "brake"},
	"WasmCCMDeletionBrakeFailing": {`wasm_ccm_deletion_brake_failing{provider="a",what="record"} 1x30`, `wasm_ccm_deletion_brake_failing{provider="a",what="record"} 0x30`, ""},
	"WasmCCMConfigRejected":       {`wasm_ccm_config_rejected 1x30`, `wasm_ccm_config_rejected 0x30`, "secrets"},
	"WasmCCMRolloutStopped":       {`wasm_ccm_provider_rollout_phase{phase="Held",provider="a"} 1x30`, `wasm_ccm_provider_rollout_phase{phase="Kept",provider="a"} 1x30`, "badinput"},
	"WasmCCMSourceUnavailable":    {`wasm_ccm_provider_source_unavailable{provider="a",reason="RegistryUnavailable"} 1x90`, `wasm_ccm_provider_source_unavailable{provider="a",reason="RegistryUnavailable"} 1x20 0x70`, "registry"},
	"WasmCCMProviderBackoff":      {`wasm_ccm_provider_backoffs_total{op="lb_ensure",provider="a"} 0x25 1x5`, `wasm_ccm_provider_backoffs_total{op="lb_ensure",provider="a"} 0x30`, "hung"},
	"WasmCCMProviderErrors":       {`wasm_ccm_provider_op_duration_seconds_count{code="unavailable",op="lb_ensure",provider="a"} 0+10x30`, `wasm_ccm_provider_op_duration_seconds_count{code="retry_after",op="lb_ensure",provider="a"} 0+60x30`, "hung"},
	"WasmCCMCloudBreakerOpen":     {`wasm_ccm_cloud_breaker_open{host="api.example.com:443",provider="a"} 1 0.5 1 0.5 1 1 0.5x24`, `wasm_ccm_cloud_breaker_open{host="api.example.com:443",provider="a"} 0x30`, ""},
}

// Each alert fires when its state lasts as long as it says, and names what it is about; it does not fire in a healthy state.
func TestAlertsFire(t *testing.T) {
	has, all := exposed(t), alerts(t)
	for _, rule := range all {
		t.Run(rule.Alert, func(t *testing.T) {
			check(t, has, rule.Alert, rule.Expr)
			state, ok := bad[rule.Alert]
			if !ok {
				t.Fatal("no state of this test makes it fire")
			}
			fired := firing(t, has, rule, answering(state.bad)...)
			if len(fired) != 1 {
				t.Fatalf("it fires %d times in the bad state", len(fired))
			}
			if healthy := firing(t, has, rule, answering(state.healthy)...); len(healthy) > 0 {
				t.Errorf("it fires in the healthy state: %v", healthy)
			}
			for _, label := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(rule.Annotations["summary"]+rule.Annotations["next_step"], -1) {
				if !fired[0].Has(label[1]) {
					t.Errorf("it names the label %s, which it does not have: %v", label[1], fired[0])
				}
			}
			if state.script != "" {
				assertedBy(t, rule.Expr, state.script)
			}
			firesFor(t, rule.Alert)
		})
	}
	if len(bad) != len(all) {
		t.Errorf("%d alerts, and states for %d", len(all), len(bad))
	}
}

// alerts are those of the chart, as Prometheus reads them.
func alerts(t *testing.T) []rulefmt.Rule {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(chart, "files", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	groups := append([]byte("groups:\n- name: wasm-ccm\n  rules:\n"), regexp.MustCompile(`(?m)^`).ReplaceAll(data, []byte("  "))...)
	read, errs := rulefmt.Parse(groups, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.Default())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return read.Groups[0].Rules
}

func alert(t *testing.T, name string) rulefmt.Rule {
	t.Helper()
	all := alerts(t)
	i := slices.IndexFunc(all, func(r rulefmt.Rule) bool { return r.Alert == name })
	if i < 0 {
		t.Fatalf("no alert %s", name)
	}
	return all[i]
}

// answering are the series of a manager that answers.
func answering(state string) []string {
	if strings.HasPrefix(state, "wasm_ccm_config_rejected") {
		return []string{state}
	}
	return []string{"wasm_ccm_config_rejected 0x90", state}
}

// A manager that does not answer is one that does not serve.
func TestAlertWithoutAManager(t *testing.T) {
	rule := rulefmt.Rule{Expr: alert(t, "WasmCCMNotServing").Expr, For: alert(t, "WasmCCMNotServing").For}
	if fired := firing(t, exposed(t), rule); len(fired) != 1 {
		t.Errorf("it fires %d times", len(fired))
	}
}

// assertedBy finds the script in which a real manager has the metric of an alert.
func assertedBy(t *testing.T, expr, script string) {
	t.Helper()
	name := strings.TrimPrefix(regexp.MustCompile(`wasm_ccm_\w+`).FindString(expr), "wasm_ccm_")
	text, err := os.ReadFile(filepath.Join("..", "script", script+".txtar"))
	if err != nil || !regexp.MustCompile(`(?m)^metric \w+ '\^?(wasm_ccm_)?`+name).Match(text) {
		t.Errorf("the script %s asserts no %s: %v", script, name, err)
	}
}

// firesFor looks whether an alert fires in the script that has a Prometheus scrape a real manager.
func firesFor(t *testing.T, alert string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "script", "alerts.txtar"))
	if err != nil || !regexp.MustCompile(`(?m)^alert fires `+alert+`\b`).Match(text) {
		t.Errorf("the script alerts has it not fire: %v", err)
	}
}

// firing returns the series of an alert that are there at each evaluation for as long as it says, until the end.
func firing(t *testing.T, has map[string][]string, rule rulefmt.Rule, states ...string) []labels.Labels {
	t.Helper()
	var data memory
	minutes := 30
	for _, state := range states {
		series, length := read(t, has, state)
		data, minutes = append(data, series), length
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 100_000, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	defer func() { _ = engine.Close() }()
	end := time.UnixMilli(0).Add(time.Duration(minutes) * time.Minute)
	query, err := engine.NewRangeQuery(t.Context(), data, nil, rule.Expr, end.Add(-time.Duration(rule.For)), end, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	matrix, err := query.Exec(t.Context()).Matrix()
	if err != nil {
		t.Fatal(err)
	}
	var fired []labels.Labels
	for _, s := range matrix {
		if len(s.Floats) == int(time.Duration(rule.For)/time.Minute)+1 {
			fired = append(fired, s.Metric)
		}
	}
	return fired
}

// read makes a series of a description, with a value each minute. The manager must expose such a series.
func read(t *testing.T, has map[string][]string, state string) (storage.Series, int) {
	t.Helper()
	metric, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(state)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	metric.Range(func(l labels.Label) {
		if l.Name != model.MetricNameLabel {
			names = append(names, l.Name)
		}
	})
	slices.Sort(names)
	name := metric.Get(model.MetricNameLabel)
	if want := slices.Sorted(slices.Values(has[name])); !slices.Equal(names, want) {
		t.Fatalf("the manager's %s has the labels %q", name, want)
	}
	var samples []chunks.Sample
	for i, v := range values {
		samples = append(samples, sample{time.Duration(i) * time.Minute, v.Value})
	}
	return storage.NewListSeries(metric, samples), len(values) - 1
}

type sample struct {
	at    time.Duration
	value float64
}

func (s sample) T() int64                    { return s.at.Milliseconds() }
func (sample) ST() int64                     { return 0 }
func (s sample) F() float64                  { return s.value }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }

// memory is a storage of some series.
type memory []storage.Series

func (m memory) Querier(int64, int64) (storage.Querier, error) { return querier{m}, nil }

type querier struct{ all memory }

func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := &set{at: -1}
	for _, s := range q.all {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Labels().Get(m.Name)) }) {
			found.all = append(found.all, s)
		}
	}
	return found
}

func (querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (querier) Close() error { return nil }

// set is storage.SeriesSet.
type set struct {
	all memory
	at  int
}

func (s *set) Next() bool                      { s.at++; return s.at < len(s.all) }
func (s *set) At() storage.Series              { return s.all[s.at] }
func (*set) Err() error                        { return nil }
func (*set) Warnings() annotations.Annotations { return nil }
