package check

import (
	"strings"
	"testing"
)

// A plan is what helm template prints, or a HostConfiguration; anything else is
// refused with what is missing, and nothing crashes.
func FuzzReadPlan(f *testing.F) {
	f.Add("{apiVersion: config.wasm-ccm.dev/v1alpha1, kind: HostConfiguration, providers: []}")
	f.Add("# nothing\n---\nkind: ConfigMap\nmetadata: {name: cloud-controller-manager}\ndata: {config.yaml: x}\n")
	f.Add("kind: DaemonSet\nmetadata: {name: cloud-controller-manager}\nspec: {template: 3}\n")
	f.Add("[]")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := readPlan([]byte(text))
		if err == nil && p.configuration == nil {
			t.Errorf("%q is a plan without a configuration", text)
		}
	})
}

func TestNoPlan(t *testing.T) {
	_, err := readPlan([]byte("kind: Service\nmetadata: {name: web}\n"))
	if err == nil || !strings.Contains(err.Error(), "helm template") {
		t.Errorf("%v", err)
	}
}
