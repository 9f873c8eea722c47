package trials

import (
	"errors"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

// An uninstallation removes the manager's rights before its end, so the mark of
// a trial stays. After another installation it does not count against the
// module. But a crash of the new manager does.
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
			begin(t, newProcessAs(t, client, "a:1", test.left, "main").books[0], "new", trial.Offered)
			next := newProcessAs(t, client, test.manager, test.now, "main").books[0]
			if !test.suspected {
				begin(t, next, "new", trial.Offered)
				next = newProcessAs(t, client, test.manager, test.now, "main").books[0]
			}
			var suspected *trial.Suspect
			if _, err := next.Of("")(t.Context(), offered("new"), engine.Default, trial.Offered); !errors.As(err, &suspected) {
				t.Errorf("%v, want that it is suspected", err)
			}
		})
	}
}
