package check

import (
	"strings"
	"testing"
)

// A plan is the output of helm template, or a HostConfiguration; any other
// input is refused with the missing parts, and nothing crashes.
func FuzzReadPlan(f *testing.F) {
	f.Add("{apiVersion: config.wasm-ccm.dev/v1alpha1, kind: HostConfiguration, providers: []}")
	f.Add("# nothing\n---\nkind: ConfigMap\nmetadata: {name: cloud-controller-manager}\ndata: {config.yaml: x}\n")
	f.Add("kind: DaemonSet\nmetadata: {name: cloud-controller-manager}\nspec: {template: 3}\n")
	f.Add("[]")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := readPlan([]byte(text), "plan.yaml")
		if err == nil && p.configuration == nil {
			t.Errorf("%q is a plan without a configuration", text)
		}
	})
}

func TestNoPlan(t *testing.T) {
	_, err := readPlan([]byte("kind: Service\nmetadata: {name: web}\n"), "plan.yaml")
	if err == nil || !strings.Contains(err.Error(), "plan.yaml is neither") || !strings.Contains(err.Error(), "helm template") {
		t.Errorf("%v", err)
	}
}
