package explain_test

import (
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/explain"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// The next step of each phase is a command that helps: Events of a module are
// about its source, in whatever namespace that is.
func TestTheNextStepOfAProviderHelps(t *testing.T) {
	offered := &v1alpha1.Module{Digest: strings.Repeat("a", 64)}
	for _, c := range []struct {
		phase, reason, command string
		paused                 bool
	}{
		{phase: v1alpha1.PhaseRejected, reason: "ModuleInvalid", command: "kubectl get events -A --field-selector reason=ProviderRejected"},
		{phase: v1alpha1.PhaseRejected, reason: "RehearsalFailed", command: "ccmctl rollout promote static aaaaaaaaaaaa"},
		{phase: v1alpha1.PhaseServing, paused: true, command: "ccmctl rollout pause static --resume"},
	} {
		e := explain.Provider(explain.Facts{Namespace: "kube-system", Provider: &v1alpha1.Provider{
			Name: "static", Phase: c.phase, Reason: c.reason, Offered: offered, Paused: c.paused}})
		if len(e.Next) != 1 || e.Next[0].Command != c.command {
			t.Errorf("%s %s: next is %+v, want %q", c.phase, c.reason, e.Next, c.command)
		}
	}
}
