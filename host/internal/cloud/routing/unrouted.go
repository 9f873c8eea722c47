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

// UnroutedService reports whether the Service waits for a provider that there
// is not: it wants a load balancer, or has one to be deleted, and is nobody's.
func (r *Router) UnroutedService(service *corev1.Service) bool {
	if r.everything {
		return waits(service) && r.lost(service)
	}
	return waits(service) && !r.known(r.serviceName(service))
}

// UnroutedNode reports whether the Node waits for a provider that there is not:
// it is to be initialised, is nobody's, and nobody may be asked.
func (r *Router) UnroutedNode(node *corev1.Node) bool {
	if r.everything || !uninitialised(node) || r.known(r.nodeName(node)) {
		return false
	}
	return !unmarked(node) || len(r.ask) == 0
}

// waits reports whether upstream's service controller has work with a Service.
// Without a load balancer the finalizer may be another controller's, unless
// the Service has an owner or cannot be deleted for it.
func waits(service *corev1.Service) bool {
	if service.Spec.LoadBalancerClass != nil {
		return false
	}
	return wantsLoadBalancer(service) || servicehelpers.HasLBFinalizer(service) &&
		(service.Labels[ServiceOwnerLabel] != "" || service.DeletionTimestamp != nil)
}

func uninitialised(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == cloudproviderapi.TaintExternalCloudProvider })
}

// adviseService says why an unrouted Service waits and what to do.
func (r *Router) adviseService(service *corev1.Service) string {
	if owner := service.Labels[ServiceOwnerLabel]; owner != "" {
		return fmt.Sprintf("The label %s says %s, which is no provider of this manager (it has: %s). The load balancer is left alone. "+
			"Configure that provider again; or, when its load balancer is gone, remove the label", ServiceOwnerLabel, text.Quote(owner), r.configured())
	}
	if choice := service.Annotations[ServiceAnnotation]; choice != "" {
		return fmt.Sprintf("The annotation %s says %s, which is no provider of this manager (it has: %s). Correct the annotation", ServiceAnnotation, text.Quote(choice), r.configured())
	}
	return fmt.Sprintf("No provider: the Service has no annotation %s, and no provider is the default for Services (routing.services.default). "+
		"Set the annotation to one of: %s", ServiceAnnotation, r.configured())
}

// adviseNode says why an unrouted Node waits and what to do.
func (r *Router) adviseNode(node *corev1.Node) string {
	switch {
	case unmarked(node):
		return fmt.Sprintf("No provider: the Node has no ProviderID and no label %s, and no provider may be asked for nodes (routing.nodes.ask). "+
			"Set the label to one of: %s", NodeLabel, r.configured())
	case node.Spec.ProviderID != "":
		return fmt.Sprintf("No provider of this manager has the scheme %s of this Node's ProviderID (they have: %s). The Node is left alone",
			text.Quote(schemeOf(node.Spec.ProviderID)), strings.Join(r.schemeList(), ", "))
	}
	return fmt.Sprintf("The label %s says %s, which is no provider of this manager (it has: %s). Correct the label", NodeLabel, text.Quote(node.Labels[NodeLabel]), r.configured())
}

func (r *Router) schemeList() []string {
	var list []string
	for scheme, provider := range r.schemes {
		list = append(list, fmt.Sprintf("%s of %s", scheme, provider))
	}
	slices.Sort(list)
	return list
}
