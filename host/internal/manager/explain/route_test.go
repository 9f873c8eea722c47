package explain_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/explain"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Routes that are off on purpose are no problem; routes that a mistake stops are stuck.
func TestRoutesThatAreOff(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{PodCIDR: "10.0.0.0/24"}}
	for want, loop := range map[v1alpha1.State]v1alpha1.Loop{
		v1alpha1.StateIgnored:     {Name: "node-route-controller", Reason: "--configure-cloud-routes is false", Off: true},
		v1alpha1.StateStuck:       {Name: "node-route-controller", Reason: "--cluster-cidr is empty"},
		v1alpha1.StateProgressing: {Name: "node-route-controller", Running: true},
	} {
		e := explain.Route(node, explain.Facts{Provider: &v1alpha1.Provider{Name: "p", Serving: &v1alpha1.Module{}, Loops: []v1alpha1.Loop{loop}}})
		if e.State != want {
			t.Errorf("%+v: %+v", loop, e)
		}
	}
}

// What to do about an object without a provider is in the message: the step is the command.
func TestTheRemedyWithoutAProviderIsSaidOnce(t *testing.T) {
	facts := explain.Facts{Providers: []string{"a"}, Advice: "Set it to one of: a", Namespace: "ccm"}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	for want, e := range map[string]v1alpha1.Explanation{
		"kubectl label --overwrite node n1 wasm-ccm.dev/provider=a":                explain.Node(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, facts),
		"kubectl -n web annotate --overwrite service shop wasm-ccm.dev/provider=a": explain.Service(service, facts),
	} {
		if e.Message != facts.Advice || len(e.Next) != 1 || e.Next[0].What != "for example" || e.Next[0].Command != want {
			t.Errorf("%+v", e)
		}
	}
}
