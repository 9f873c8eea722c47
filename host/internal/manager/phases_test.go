package manager

import (
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// The API has the phases of a rollout, and knows the final ones.
func TestPhasesOfTheAPI(t *testing.T) {
	for phase, want := range map[rollout.Phase]struct {
		told    string
		refused bool
	}{
		rollout.Waiting: {told: v1alpha1.PhaseWaiting}, rollout.Loading: {told: v1alpha1.PhaseLoading},
		rollout.Verified: {told: v1alpha1.PhaseVerified}, rollout.Compiled: {told: v1alpha1.PhaseCompiled},
		rollout.Described: {told: v1alpha1.PhaseDescribed}, rollout.Configured: {told: v1alpha1.PhaseConfigured},
		rollout.Probed: {told: v1alpha1.PhaseProbed}, rollout.Shadowed: {told: v1alpha1.PhaseShadowed},
		rollout.Serving: {told: v1alpha1.PhaseServing}, rollout.Kept: {told: v1alpha1.PhaseKept},
		rollout.Rejected: {v1alpha1.PhaseRejected, true}, rollout.Held: {v1alpha1.PhaseHeld, true},
		rollout.RolledBack: {v1alpha1.PhaseRolledBack, true},
	} {
		p := v1alpha1.Provider{Phase: string(phase)}
		if p.Phase != want.told || p.Refused() != want.refused {
			t.Errorf("phase %s is told as %s, refused %t", phase, want.told, p.Refused())
		}
	}
}
