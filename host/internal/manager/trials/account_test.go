package trials

import (
	"errors"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

// Who uninstalls the manager takes its rights before it ends, so the mark of a
// trial stays. After it was installed again nobody is suspected for that. But
// what crashes the new one is.
func TestAMarkOfAnInstallationBeforeAccusesNobody(t *testing.T) {
	before, now := trial.Account{Name: "ccm", UID: "1"}, trial.Account{Name: "ccm", UID: "2"}
	for name, test := range map[string]struct {
		left, now trial.Account
		manager   string
		suspected bool
	}{
		"installed again":                   {before, now, "a:1", false},
		"installed again, and another node": {before, now, "b:1", false},
		"a restart":                         {before, before, "a:1", true},
		"a failover":                        {before, before, "b:1", true},
		"another account":                   {before, trial.Account{Name: "other", UID: "2"}, "b:1", true},
		"no account":                        {trial.Account{}, now, "a:1", true},
		"an account that is not known":      {before, trial.Account{}, "a:1", true},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			begin(t, newProcessAs(t, client, "a:1", test.left, "main").books[0], "new", rollout.Offered)
			next := newProcessAs(t, client, test.manager, test.now, "main").books[0]
			if !test.suspected {
				begin(t, next, "new", rollout.Offered)
				next = newProcessAs(t, client, test.manager, test.now, "main").books[0]
			}
			var suspected *rollout.Suspected
			if _, err := (runs{Book: next}).Begin(t.Context(), offered("new"), engine.Default, rollout.Offered); !errors.As(err, &suspected) {
				t.Errorf("%v, want that it is suspected", err)
			}
		})
	}
}
