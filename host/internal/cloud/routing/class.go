package routing

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// classDecides is the Event's reason.
const classDecides = report.LoadBalancerClassDecides

// Classes selects, among the provider's Services, those with a class
// (spec.loadBalancerClass) that it serves: the owner label decides, and without one the
// class. All other classes are other controllers'.
func (r *Router) Classes(provider string) func(*corev1.Service) bool {
	return func(service *corev1.Service) bool {
		t := r.table()
		return t.known(provider) && service.Spec.LoadBalancerClass != nil && t.serviceName(service) == provider
	}
}

// cleanedByOthers reports whether a Service of another controller's class is being deleted.
// All controllers have the same finalizer (KEP-1959): upstream would remove the other
// controller's, which would then forget its load balancer.
func (t *table) cleanedByOthers(service *corev1.Service) bool {
	return service.DeletionTimestamp != nil && service.Spec.LoadBalancerClass != nil && t.serviceName(service) == ""
}

// unlabelled reports whether the Service gets no owner label: its provider has everything,
// and it has no class.
func (l *loadBalancer) unlabelled(service *corev1.Service) bool {
	return l.router.Everything() && service.Spec.LoadBalancerClass == nil && service.Labels[ServiceOwnerLabel] == ""
}

// adviseClass says why an annotation on a Service with a class has no effect if it names
// another provider, or "".
func (t *table) adviseClass(service *corev1.Service) string {
	class, choice := service.Spec.LoadBalancerClass, service.Annotations[ServiceAnnotation]
	if t.everything || class == nil || choice == "" || service.DeletionTimestamp != nil || t.classes[*class] == choice {
		return ""
	}
	if owner := t.classes[*class]; owner != "" {
		return fmt.Sprintf("The class %s (spec.loadBalancerClass) belongs to provider %q and decides, so the annotation %s (%s) has no effect. "+
			"Remove the annotation; or make the Service again without the class", text.Quote(*class), owner, ServiceAnnotation, text.Quote(choice))
	}
	return fmt.Sprintf("The class %s (spec.loadBalancerClass) is in no provider's routing.services.classes, so the Service is left to another controller, "+
		"and the annotation %s (%s) has no effect. Remove the annotation; or make the Service again without the class",
		text.Quote(*class), ServiceAnnotation, text.Quote(choice))
}
