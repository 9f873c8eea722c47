package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	basemetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
)

func newRegistry() (*metrics.Metrics, basemetrics.KubeRegistry) {
	m := metrics.New()
	registry := basemetrics.NewKubeRegistry()
	m.Register(registry.MustRegister)
	return m, registry
}

func TestInvokeIsCountedByOutcome(t *testing.T) {
	m, registry := newRegistry()
	want := map[string]error{
		"ok":        nil,
		"not_found": fmt.Errorf("lb_get: %w", &abi.Error{Code: abi.CodeNotFound}),
		"deadline":  fmt.Errorf("lb_get: %w", context.DeadlineExceeded),
		"failed":    errors.New("trap"),
	}
	for _, err := range want {
		m.Provider("a").Op(t.Context(), abi.OpLoadBalancerGet, time.Second, err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for code := range want {
		labels := map[string]string{"op": "lb_get", "code": code}
		count, err := testutil.GetHistogramVecFromGatherer(registry, "wasm_ccm_provider_op_duration_seconds", labels)
		if err != nil || count.GetAggregatedSampleCount() != 1 {
			t.Errorf("code %s: %v samples, error %v, in %v", code, count, err, families)
		}
	}
}

func TestServingReplacesWhatServedAndWhatWasRejectedOfThatProvider(t *testing.T) {
	m, registry := newRegistry()
	a, b := m.Provider("a"), m.Provider("b")
	b.Serving("static", "9", "zzz", "wazero")
	b.Rejected("ModuleInvalid")
	a.Serving("static", "1", "aaa", "wazero")
	a.Rejected("ModuleInvalid")
	m.Provider("a").Rejected("ProbeFailed")
	m.Provider("a").Serving("static", "2", "bbb", "wazero")
	a.Serving("static", "2", "bbb", "wazero")
	compare(t, registry, `
# HELP wasm_ccm_provider_rejected [ALPHA] 1 while the source's content is rejected, by reason; the previous generation serves.
# TYPE wasm_ccm_provider_rejected gauge
wasm_ccm_provider_rejected{provider="b",reason="ModuleInvalid"} 1
# HELP wasm_ccm_provider_serving [ALPHA] 1 for the serving generation of the provider; name is the module's, engine runs it.
# TYPE wasm_ccm_provider_serving gauge
wasm_ccm_provider_serving{digest="bbb",engine="wazero",name="static",provider="a",version="2"} 1
wasm_ccm_provider_serving{digest="zzz",engine="wazero",name="static",provider="b",version="9"} 1
`, "wasm_ccm_provider_serving", "wasm_ccm_provider_rejected")
}

func compare(t *testing.T, registry basemetrics.KubeRegistry, want string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

func TestRollout(t *testing.T) {
	m, registry := newRegistry()
	r := m.Provider("a").Rollout()
	m.Provider("b").Rollout().Phase("Kept")
	for _, phase := range []string{"Verified", "Probed", "Probed", "Serving"} {
		r.Phase(phase)
	}
	r.Generation(7)
	r.Shadowed(5, 2, 1)
	r.Shadowed(1, 0, 0)
	r.Kept()
	r.Held("ShadowDiffers")
	r.RolledBack("ErrorBudget")
	r.Promoted()
	r.Took(time.Second)
	compare(t, registry, `
# HELP wasm_ccm_provider_generation [ALPHA] Number of the provider's serving generation.
# TYPE wasm_ccm_provider_generation gauge
wasm_ccm_provider_generation{provider="a"} 7
# HELP wasm_ccm_provider_rollout_phase [ALPHA] 1 for the present or last phase of the provider's newest rollout.
# TYPE wasm_ccm_provider_rollout_phase gauge
wasm_ccm_provider_rollout_phase{phase="Kept",provider="b"} 1
wasm_ccm_provider_rollout_phase{phase="Serving",provider="a"} 1
# HELP wasm_ccm_provider_rollouts_total [ALPHA] Modules and configurations that were offered, by result (serving, kept, rejected, held, rolled_back, promoted) and the reason.
# TYPE wasm_ccm_provider_rollouts_total counter
wasm_ccm_provider_rollouts_total{provider="a",reason="",result="kept"} 1
wasm_ccm_provider_rollouts_total{provider="a",reason="",result="promoted"} 1
wasm_ccm_provider_rollouts_total{provider="a",reason="ErrorBudget",result="rolled_back"} 1
wasm_ccm_provider_rollouts_total{provider="a",reason="ShadowDiffers",result="held"} 1
# HELP wasm_ccm_provider_shadow_answers_total [ALPHA] Answers of new generations before they serve, compared with those of the serving one (same, different, incomparable).
# TYPE wasm_ccm_provider_shadow_answers_total counter
wasm_ccm_provider_shadow_answers_total{provider="a",result="different"} 2
wasm_ccm_provider_shadow_answers_total{provider="a",result="incomparable"} 1
wasm_ccm_provider_shadow_answers_total{provider="a",result="same"} 6
`, "wasm_ccm_provider_generation", "wasm_ccm_provider_rollout_phase", "wasm_ccm_provider_rollouts_total", "wasm_ccm_provider_shadow_answers_total")
	count, err := testutil.GetHistogramVecFromGatherer(registry, "wasm_ccm_provider_rollout_duration_seconds", map[string]string{"provider": "a"})
	if err != nil || count.GetAggregatedSampleCount() != 1 {
		t.Errorf("%v, %v", count, err)
	}
}

// ofTheManager are the metrics without a provider.
var ofTheManager = []string{"wasm_ccm_config_rejected", "wasm_ccm_leads", "wasm_ccm_serving_certificate_end_timestamp_seconds"}

// toldOf is the status of a leading manager, with entries for each provider.
func toldOf(providers ...string) metrics.Told {
	told := metrics.Told{Leads: true, CertificateEnds: time.Unix(1e9, 0), Stuck: map[metrics.Stuck]int{}, Conditions: map[metrics.Condition]bool{}}
	for _, p := range providers {
		told.Stuck[metrics.Stuck{Kind: "Service", Reason: "Refused", Provider: p}] = 5
		told.Conditions[metrics.Condition{Provider: p, Type: "Durable"}] = true
	}
	return told
}

// Entries that vanish from the status lose their series; others keep theirs.
func TestWhatIsToldIsShownAsAWhole(t *testing.T) {
	m, registry := newRegistry()
	m.Tell(toldOf("a", "b"))
	m.Tell(metrics.Told{
		Stuck:      map[metrics.Stuck]int{{Kind: "Service", Reason: "Refused", Provider: "b"}: 2, {Kind: "Node", Reason: "NoProvider"}: 1},
		Conditions: map[metrics.Condition]bool{{Provider: "b", Type: "Durable"}: false},
	})
	compare(t, registry, `
# HELP wasm_ccm_leads [ALPHA] 1 while this manager leads and runs the control loops, 0 while it is a standby.
# TYPE wasm_ccm_leads gauge
wasm_ccm_leads 0
# HELP wasm_ccm_provider_condition [ALPHA] 1 while the condition of the provider is True, else 0. Only the leader has it.
# TYPE wasm_ccm_provider_condition gauge
wasm_ccm_provider_condition{condition="Durable",provider="b"} 0
# HELP wasm_ccm_stuck [ALPHA] Objects that do not go on, by kind (Service, Node, Route, PersistentVolume) and by the reason that ccmctl status and why name; without a provider: objects that wait for one. The leader alone has it.
# TYPE wasm_ccm_stuck gauge
wasm_ccm_stuck{kind="Node",provider="",reason="NoProvider"} 1
wasm_ccm_stuck{kind="Service",provider="b",reason="Refused"} 2
`, "wasm_ccm_leads", "wasm_ccm_provider_condition", "wasm_ccm_stuck")
	m.Tell(metrics.Told{})
	compare(t, registry, "", "wasm_ccm_provider_condition", "wasm_ccm_stuck")
}

// Every method is called for two providers: each series has to exist twice.
func TestEverySeriesNamesItsProvider(t *testing.T) {
	m, registry := newRegistry()
	for _, p := range []*metrics.Provider{m.Provider("a"), m.Provider("b")} {
		touch(t, p)
	}
	m.Tell(toldOf("a", "b"))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "wasm_ccm_") || slices.Contains(ofTheManager, family.GetName()) {
			continue
		}
		seen++
		providers := map[string]int{}
		for _, series := range family.GetMetric() {
			for _, label := range series.GetLabel() {
				if label.GetName() == "provider" {
					providers[label.GetValue()]++
				}
			}
		}
		if providers["a"] == 0 || providers["a"] != providers["b"] || 2*providers["a"] != len(family.GetMetric()) {
			t.Errorf("%s has %d series, of providers %v", family.GetName(), len(family.GetMetric()), providers)
		}
	}
	if want := 32; seen != want {
		t.Errorf("%d families were touched, want %d", seen, want)
	}
}

func touch(t *testing.T, p *metrics.Provider) {
	t.Helper()
	p.Op(t.Context(), abi.OpLoadBalancerGet, time.Second, nil)
	p.InstanceCreated()
	p.InstanceCreated()
	p.InstanceDiscarded("trap")
	p.Dropped("log")
	p.Serving("static", "1", "aaa", "wazero")
	p.Rejected("ModuleInvalid")
	p.Rollout().Phase("Rejected")
	p.Rollout().Generation(1)
	p.Rollout().Took(time.Second)
	p.Rollout().Shadowed(1, 1, 1)
	p.Background().Running(1)
	p.Background().Done(abi.OpLoadBalancerGet, time.Second, nil)
	p.Background().Dropped(abi.OpLoadBalancerGet, "expired")
	p.Background().Busy(abi.OpLoadBalancerGet)
	p.Background().BackedOff(abi.OpLoadBalancerGet)
	p.Brake().Engaged(true)
	p.Brake().Seen(1, 2.5)
	p.Brake().Failing("record", true)
	p.Brake().Held("NoPermit")
	p.Brake().LetGo()
	p.Brake().Contradicted("witness")
	e := p.Egress()
	e.Requested(t.Context(), metrics.Kind{Op: "lb_get", Host: "h", Method: "GET", PathTemplate: "/", Result: "2xx"}, time.Second)
	e.InFlight("h", 1)
	e.Retried("h", "503")
	e.Throttled("h", "rate")
	e.BreakerChanged("h", "closed", "open")
	e.Refused("denied")
}

func TestEgress(t *testing.T) {
	m, registry := newRegistry()
	e := m.Provider("a").Egress()
	e.Requested(t.Context(), metrics.Kind{Op: "lb_get", Host: "api.example.com:443", Method: "GET", PathTemplate: "/v1/*", Result: "2xx"}, time.Second)
	e.Requested(t.Context(), metrics.Kind{Op: "lb_get", Host: "api.example.com:443", Method: "PROPFIND", PathTemplate: "/v1/*", Result: "5xx"}, time.Second)
	e.InFlight("api.example.com:443", 1)
	e.Retried("api.example.com:443", "503")
	e.Throttled("api.example.com:443", "breaker")
	e.BreakerChanged("api.example.com:443", "closed", "open")
	e.BreakerChanged("api.example.com:443", "open", "half-open")
	e.Refused("denied")
	want := `
# HELP wasm_ccm_cloud_breaker_open [ALPHA] 1 while a host of the cloud gets no requests after too many failures, 0.5 during a trial request.
# TYPE wasm_ccm_cloud_breaker_open gauge
wasm_ccm_cloud_breaker_open{host="api.example.com:443",provider="a"} 0.5
# HELP wasm_ccm_cloud_breaker_opened_total [ALPHA] Openings of the breaker of a host of the cloud.
# TYPE wasm_ccm_cloud_breaker_opened_total counter
wasm_ccm_cloud_breaker_opened_total{host="api.example.com:443",provider="a"} 1
# HELP wasm_ccm_cloud_requests_refused_total [ALPHA] HTTP requests of the provider that were refused before anything was sent, by code; denied: no grant allows it; invalid: no grant could allow it; too_large: larger than a request may be; throttled: refused without a reason, after too many refusals.
# TYPE wasm_ccm_cloud_requests_refused_total counter
wasm_ccm_cloud_requests_refused_total{code="denied",provider="a"} 1
`
	names := []string{"wasm_ccm_cloud_breaker_open", "wasm_ccm_cloud_breaker_opened_total", "wasm_ccm_cloud_requests_refused_total"}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	count, err := testutil.GetHistogramVecFromGatherer(registry, "wasm_ccm_cloud_request_duration_seconds", map[string]string{"method": "other", "op": "lb_get", "path": "/v1/*"})
	if err != nil || count.GetAggregatedSampleCount() != 1 {
		t.Errorf("%v, %v", count, err)
	}
}

// A removed provider has no series; a new one with its name starts at zero.
func TestNothingIsShownOfAProviderThatIsGone(t *testing.T) {
	m, registry := newRegistry()
	m.Remove("never") // nothing was recorded
	for _, name := range []string{"a", "b"} {
		p := m.Provider(name)
		p.Op(t.Context(), abi.OpLoadBalancerGet, time.Second, nil)
		p.InstanceCreated()
		p.InstanceDiscarded("idle")
		p.Dropped("log")
		p.Serving("static", "1", "aaa", "wazero")
		p.Rejected("ModuleInvalid")
		p.Rollout().Phase("Serving")
		p.Rollout().Generation(3)
		p.Rollout().Took(time.Second)
		p.Rollout().Shadowed(1, 1, 1)
		p.Egress().Requested(t.Context(), metrics.Kind{Host: "cloud", Method: "GET", Result: "2xx"}, time.Second)
		p.Egress().InFlight("cloud", 1)
		p.Egress().BreakerChanged("cloud", "closed", "open")
		p.Egress().Refused("denied")
		p.Brake().Engaged(true)
		p.Brake().Held("permits")
		p.Listing().Listed(3)
		p.Listing().Failed()
	}
	count := func(name string) (n int) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				for _, label := range metric.GetLabel() {
					if label.GetName() == "provider" && label.GetValue() == name {
						n++
					}
				}
			}
		}
		return n
	}
	before := count("b")
	m.Remove("a")
	if n := count("a"); n != 0 || before < 18 || count("b") != before {
		t.Errorf("%d series of the one that is gone; of the other one %d, before %d", n, count("b"), before)
	}
	m.Provider("a").Serving("static", "2", "bbb", "wazero")
	if n, want := count("a"), 2+len(abi.Ops()); n != want {
		t.Errorf("%d series of the one that came back, want %d", n, want)
	}
}
