package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

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
