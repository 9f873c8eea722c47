package explain_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/explain"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Where the manager makes no load balancers, a Service that another controller has given an
// address is not stuck; one without, or with a load balancer of the cloud, is.
func TestLoadBalancersOfAnotherController(t *testing.T) {
	given := []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	for name, test := range map[string]struct {
		loops      []v1alpha1.Loop
		finalizers []string
		ingress    []corev1.LoadBalancerIngress
		want       v1alpha1.State
	}{
		"the module has none":       {[]v1alpha1.Loop{{Name: "service-lb-controller", Reason: "no provider serves that has load balancers"}}, nil, given, v1alpha1.StateIgnored},
		"--controllers leaves it":   {nil, nil, given, v1alpha1.StateIgnored},
		"nobody gives an address":   {nil, nil, nil, v1alpha1.StateStuck},
		"the cloud's is still left": {nil, []string{servicehelpers.LoadBalancerCleanupFinalizer}, given, v1alpha1.StateStuck},
		"the loop runs":             {[]v1alpha1.Loop{{Name: "service-lb-controller", Running: true}}, nil, nil, v1alpha1.StateProgressing},
	} {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", Finalizers: test.finalizers}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
		service.Status.LoadBalancer.Ingress = test.ingress
		e := explain.Service(service, explain.Facts{Provider: &v1alpha1.Provider{Name: "p", Serving: &v1alpha1.Module{}, Loops: test.loops}})
		if e.State != test.want {
			t.Errorf("%s: %+v", name, e)
		}
	}
}
