package routing

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// UnroutedService reports whether the Service waits for a provider that is not configured:
// it wants a load balancer, or must lose one, and has no provider.
func (r *Router) UnroutedService(service *corev1.Service) bool {
	t := r.table()
	if t.everything {
		return waits(service) && t.lost(service)
	}
	return waits(service) && !t.known(t.serviceName(service))
}

// UnroutedNode reports whether the Node waits for a provider that is not configured: it is
// uninitialised, has no provider, and no provider may be asked about it.
func (r *Router) UnroutedNode(node *corev1.Node) bool {
	t := r.table()
	if t.everything || !uninitialised(node) || t.known(t.nodeName(node)) {
		return false
	}
	return !unmarked(node) || len(t.ask) == 0
}

// waits reports whether upstream's service controller has work with a Service. Without a
// load balancer the finalizer may be another controller's, unless the Service has an owner
// or its deletion waits for the finalizer.
func waits(service *corev1.Service) bool {
	if service.Spec.LoadBalancerClass != nil && service.Labels[ServiceOwnerLabel] == "" {
		return leftover(service) // otherwise another controller's, if no provider serves the class
	}
	return wantsLoadBalancer(service) || servicehelpers.HasLBFinalizer(service) &&
		(service.Labels[ServiceOwnerLabel] != "" || service.DeletionTimestamp != nil)
}

// leftover reports whether the deletion of a Service with a class is blocked, and its
// annotation names this manager as a possible cause.
func leftover(service *corev1.Service) bool {
	return service.DeletionTimestamp != nil && servicehelpers.HasLBFinalizer(service) && service.Annotations[ServiceAnnotation] != ""
}

func uninitialised(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == cloudproviderapi.TaintExternalCloudProvider })
}

// adviseService says why an unrouted Service waits and what to do.
func (t *table) adviseService(service *corev1.Service) string {
	advice := t.adviseOwner(service)
	if service.DeletionTimestamp != nil && servicehelpers.HasLBFinalizer(service) { // worth another Event
		return fmt.Sprintf("It is being deleted and waits for the removal of its finalizer %s. %s", servicehelpers.LoadBalancerCleanupFinalizer, advice)
	}
	return advice
}

func (t *table) adviseOwner(service *corev1.Service) string {
	if owner := service.Labels[ServiceOwnerLabel]; owner != "" {
		return fmt.Sprintf("The label %s names %s, which is not a provider of this manager (it has: %s). The load balancer is left alone. "+
			"Configure that provider again; or, when its load balancer is gone, remove the label", ServiceOwnerLabel, text.Quote(owner), t.configured())
	}
	choice := service.Annotations[ServiceAnnotation]
	if class := service.Spec.LoadBalancerClass; class != nil {
		return fmt.Sprintf("Its class %s (spec.loadBalancerClass) is in no provider's routing.services.classes (there are: %s), and its annotation %s says %s. "+
			"Give the class to a provider; or, when its load balancer is gone, and no other controller has the class, remove the finalizer",
			text.Quote(*class), t.configured(), ServiceAnnotation, text.Quote(choice))
	}
	if choice != "" {
		return fmt.Sprintf("The annotation %s names %s, which is not a provider of this manager (it has: %s). Correct the annotation", ServiceAnnotation, text.Quote(choice), t.configured())
	}
	return fmt.Sprintf("No provider: the Service has no annotation %s, and no provider is the default for Services (routing.services.default). "+
		"Set the annotation to one of: %s", ServiceAnnotation, t.configured())
}

// adviseNode says why an unrouted Node waits and what to do.
func (t *table) adviseNode(node *corev1.Node) string {
	switch {
	case unmarked(node):
		return fmt.Sprintf("No provider: the Node has no ProviderID and no label %s, and no provider may be asked for nodes (routing.nodes.ask). "+
			"Set the label to one of: %s", NodeLabel, t.configured())
	case node.Spec.ProviderID != "":
		return fmt.Sprintf("No provider of this manager has the scheme %s of this Node's ProviderID (they have: %s). The Node is left alone",
			text.Quote(schemeOf(node.Spec.ProviderID)), strings.Join(t.schemeList(), ", "))
	}
	return fmt.Sprintf("The label %s names %s, which is not a provider of this manager (it has: %s). Correct the label", NodeLabel, text.Quote(node.Labels[NodeLabel]), t.configured())
}

func (t *table) schemeList() []string {
	var list []string
	for scheme, provider := range t.schemes {
		list = append(list, fmt.Sprintf("%s of %s", scheme, provider))
	}
	slices.Sort(list)
	return list
}
