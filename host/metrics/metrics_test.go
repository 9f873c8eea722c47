package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	basemetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/metrics"
)

type fakeInvoker struct {
	invoke func() error
}

func (f fakeInvoker) Invoke(context.Context, abi.Op, abi.Message, abi.Message) error {
	return f.invoke()
}
func (f fakeInvoker) InvokeFresh(context.Context, abi.Op, abi.Message, abi.Message) error {
	return f.invoke()
}
func (fakeInvoker) Supports(abi.Op) bool { return true }
func (fakeInvoker) ProviderName() string { return "fake" }
func (fakeInvoker) HasClusterID() bool   { return true }

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
		got := m.Measure(fakeInvoker{func() error { return err }}).Invoke(context.Background(), abi.OpLoadBalancerGet, nil, nil)
		if !errors.Is(got, err) {
			t.Errorf("Invoke returned %v, want %v", got, err)
		}
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

func TestServingReplacesWhatServedAndWhatWasRejected(t *testing.T) {
	m, registry := newRegistry()
	m.Serving("static", "1", "aaa")
	m.Rejected("ModuleInvalid")
	m.Serving("static", "2", "bbb")
	want := `
# HELP wasm_ccm_provider_serving [ALPHA] 1 for the generation of the provider that serves.
# TYPE wasm_ccm_provider_serving gauge
wasm_ccm_provider_serving{digest="bbb",provider="static",version="2"} 1
`
	names := []string{"wasm_ccm_provider_serving", "wasm_ccm_provider_rejected"}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

func TestEgress(t *testing.T) {
	m, registry := newRegistry()
	e := m.Egress()
	e.Requested("api.example.com:443", "GET", "2xx", time.Second)
	e.Requested("api.example.com:443", "PROPFIND", "5xx", time.Second)
	e.InFlight("api.example.com:443", 1)
	e.Retried("api.example.com:443", "503")
	e.Throttled("api.example.com:443", "breaker")
	e.BreakerChanged("api.example.com:443", "closed", "open")
	e.BreakerChanged("api.example.com:443", "open", "half-open")
	e.Refused("denied")
	want := `
# HELP wasm_ccm_cloud_breaker_open [ALPHA] 1 while nothing is sent to a host of the cloud since it failed too often, 0.5 while one request tries.
# TYPE wasm_ccm_cloud_breaker_open gauge
wasm_ccm_cloud_breaker_open{host="api.example.com:443"} 0.5
# HELP wasm_ccm_cloud_breaker_opened_total [ALPHA] How often the breaker of a host of the cloud opened.
# TYPE wasm_ccm_cloud_breaker_opened_total counter
wasm_ccm_cloud_breaker_opened_total{host="api.example.com:443"} 1
# HELP wasm_ccm_cloud_requests_refused_total [ALPHA] HTTP requests of the provider that were refused before anything was sent, by code; denied: no grant allows it.
# TYPE wasm_ccm_cloud_requests_refused_total counter
wasm_ccm_cloud_requests_refused_total{code="denied"} 1
`
	names := []string{"wasm_ccm_cloud_breaker_open", "wasm_ccm_cloud_breaker_opened_total", "wasm_ccm_cloud_requests_refused_total"}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	count, err := testutil.GetHistogramVecFromGatherer(registry, "wasm_ccm_cloud_request_duration_seconds", map[string]string{"method": "other"})
	if err != nil || count.GetAggregatedSampleCount() != 1 {
		t.Errorf("%v, %v", count, err)
	}
}
