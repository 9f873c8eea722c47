package manager

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
)

// The wings are independent of the configuration: each of its modes must be one of theirs.
func TestPolicyIsTheConfigurations(t *testing.T) {
	for mode, want := range map[v1alpha1.PhaseMode]rollout.Mode{
		v1alpha1.PhaseRequired: rollout.Required, v1alpha1.PhaseAllowed: rollout.Allowed, v1alpha1.PhaseOff: rollout.Off,
	} {
		failures, percent := 7, 9
		r := v1alpha1.Rollout{Probe: mode, Shadow: mode, Observe: mode, ErrorBudget: v1alpha1.ErrorBudget{Failures: &failures, Percent: &percent}}
		r.ObservePeriod.Duration = time.Minute
		expected := rollout.Policy{
			Modes:         rollout.Modes{Probe: want, Shadow: want, Observe: want},
			ObservePeriod: time.Minute, Budget: rollout.Budget{Failures: failures, Percent: percent},
		}
		if diff := cmp.Diff(expected, rolloutPolicy(r)); diff != "" {
			t.Error(diff)
		}
	}
}
