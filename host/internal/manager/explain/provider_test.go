package explain_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/explain"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// A module that is not admitted is explained once, as its signature may exist by then; the
// configuration is in the chart's place.
func TestTheConditionsOfAProviderAreExplained(t *testing.T) {
	for condition, want := range map[metav1.Condition][2]string{
		{Type: v1alpha1.ConditionServing, Status: "True", Reason: report.ServingModuleNotAdmitted, Message: "too old"}: {"too old", "ccmctl inspect MODULE.wasm"},
		{Type: v1alpha1.ConditionConfigured, Status: "False", Reason: report.HostConfigurationRejected, Message: "no"}: {
			"the manager's configuration is not in force as it is written: no", "kubectl -n kube-system get configmap cloud-controller-manager -o yaml"},
	} {
		e := explain.Provider(explain.Facts{Namespace: "kube-system", Provider: &v1alpha1.Provider{
			Name: "static", Phase: v1alpha1.PhaseKept, Serving: &v1alpha1.Module{}, Conditions: []metav1.Condition{condition}}})
		if e.Message != want[0] || len(e.Next) != 1 || e.Next[0].Command != want[1] {
			t.Errorf("%s: %+v", condition.Type, e)
		}
	}
}

// A configuration that waits for something is no mistake: nothing is to be corrected.
func TestAPendingConfigurationGoesOn(t *testing.T) {
	e := explain.Provider(explain.Facts{Provider: &v1alpha1.Provider{Name: "p", Phase: v1alpha1.PhaseKept, Serving: &v1alpha1.Module{}, Conditions: []metav1.Condition{
		{Type: v1alpha1.ConditionConfigured, Status: "False", Reason: report.HostConfigurationPending, Message: "the lease is in use"}}}})
	if e.State != v1alpha1.StateProgressing || e.Cause != report.HostConfigurationPending || len(e.Next) != 0 || e.WaitsFor == "" {
		t.Errorf("%+v", e)
	}
}

// The next step of each phase is a helpful command. What is offered is in its source,
// and Events may be gone: an image has none, and a ConfigMap keeps them for an hour.
func TestTheNextStepOfAProviderHelps(t *testing.T) {
	offered := &v1alpha1.Module{Digest: strings.Repeat("a", 64)}
	for _, c := range []struct {
		phase, reason, command string
		paused                 bool
		source                 *v1alpha1.Object
	}{
		{phase: v1alpha1.PhaseRejected, reason: "ModuleInvalid", command: "kubectl -n ccm describe configmap cloud", source: &v1alpha1.Object{Kind: "ConfigMap", Namespace: "ccm", Name: "cloud"}},
		{phase: v1alpha1.PhaseRejected, reason: "ModuleInvalid", command: "ccmctl rollout history static", source: &v1alpha1.Object{Kind: "Image", Name: "registry.example/cloud:v1"}},
		{phase: v1alpha1.PhaseRejected, reason: "ConfigurationInvalid", command: "kubectl -n ccm describe configmap cloud", source: &v1alpha1.Object{Kind: "ConfigMap", Namespace: "ccm", Name: "cloud"}},
		{phase: v1alpha1.PhaseWaiting, command: "ccmctl rollout history static", source: &v1alpha1.Object{Kind: "Directory", Name: "/cloud"}},
		{phase: v1alpha1.PhaseRejected, reason: "RehearsalFailed", command: "ccmctl rollout promote static aaaaaaaaaaaa"},
		{phase: v1alpha1.PhaseServing, paused: true, command: "ccmctl rollout pause static --resume"},
	} {
		e := explain.Provider(explain.Facts{Namespace: "kube-system", Provider: &v1alpha1.Provider{
			Name: "static", Phase: c.phase, Reason: c.reason, Offered: offered, Paused: c.paused, Source: c.source}})
		if len(e.Next) != 1 || e.Next[0].Command != c.command {
			t.Errorf("%s %s: next is %+v, want %q", c.phase, c.reason, e.Next, c.command)
		}
		elsewhere := explain.Provider(explain.Facts{Namespace: "ccm", Provider: &v1alpha1.Provider{
			Name: "static", Phase: c.phase, Reason: c.reason, Offered: offered, Paused: c.paused, Source: c.source}})
		if got, want := elsewhere.Next[0].Command, report.ForManager("ccm", c.command); got != want {
			t.Errorf("%s %s, in another namespace: %q, want %q", c.phase, c.reason, got, want)
		}
	}
}

// Lifting the brake is suggested only if it alone holds Nodes: another problem
// of the provider may be why it reports their machines as gone.
func TestTheBrakeIsLiftedOnlyWhereThatHelps(t *testing.T) {
	refused := metav1.Condition{Type: v1alpha1.ConditionConfigured, Status: "False", Message: "no"}
	for _, c := range []struct {
		name       string
		permits    int
		conditions []metav1.Condition
		hosts      []v1alpha1.Host
		lifts      bool
	}{
		{name: "the brake alone", lifts: true},
		{name: "they go by themselves", permits: 2},
		{name: "the configuration is not in force", conditions: []metav1.Condition{refused}},
		{name: "the cloud is away", hosts: []v1alpha1.Host{{Host: "api.example.com", Breaker: "open"}}},
	} {
		e := explain.Provider(explain.Facts{Namespace: "kube-system", Provider: &v1alpha1.Provider{
			Name: "static", Phase: v1alpha1.PhaseKept, Serving: &v1alpha1.Module{}, Conditions: c.conditions, Hosts: c.hosts,
			Brake: &v1alpha1.Brake{Engaged: true, Gone: 5, Nodes: 10, Permits: c.permits},
		}})
		told := strings.Contains(e.Cause+e.Message, "DeletionBrake")
		for _, also := range e.Also {
			told = told || also.Cause == report.DeletionBrakeEngaged
		}
		lifts := false
		for _, step := range e.Next {
			lifts = lifts || strings.Contains(step.Command, "Unbraked") || strings.Contains(step.Command, "lifted-until")
		}
		if lifts != c.lifts || !told {
			t.Errorf("%s: the brake is told: %v; next is %+v", c.name, told, e.Next)
		}
	}
}
