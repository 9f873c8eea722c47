package routing

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// ServiceProvider returns the configured provider of a Service; "" for none, or for another
// controller's Service.
func (r *Router) ServiceProvider(service *corev1.Service) string {
	t := r.table()
	if t.everything {
		foreign := service.Spec.LoadBalancerClass != nil && t.serviceName(service) == ""
		if len(t.names) == 0 || foreign || t.lost(service) {
			return ""
		}
		return t.names[0]
	}
	if name := t.serviceName(service); t.known(name) {
		return name
	}
	return ""
}

// NodeProviders returns the provider of a Node, or the providers that are asked about it
// because nothing on it names one; none if no provider may be asked.
func (r *Router) NodeProviders(node *corev1.Node) []string {
	t := r.table()
	switch name := t.nodeName(node); {
	case t.everything:
		return slices.Clone(t.names)
	case t.known(name):
		return []string{name}
	case unmarked(node):
		return slices.Clone(t.ask)
	}
	return nil
}

// AdviseService says why a Service waits for a provider that is not configured, and what to
// do; "" if it does not wait.
func (r *Router) AdviseService(service *corev1.Service) string {
	if !r.UnroutedService(service) {
		return ""
	}
	return r.table().adviseService(service)
}

// AdviseNode is AdviseService of a Node.
func (r *Router) AdviseNode(node *corev1.Node) string {
	if !r.UnroutedNode(node) {
		return ""
	}
	return r.table().adviseNode(node)
}

// OtherChoice says which annotation or class of a Service asks for another provider than the
// owner of its load balancer, or "".
func (r *Router) OtherChoice(service *corev1.Service) string {
	owner := service.Labels[ServiceOwnerLabel]
	if owner == "" || service.DeletionTimestamp != nil {
		return ""
	}
	return (&loadBalancer{guarded: &guarded{router: r, provider: owner}}).otherChoice(service)
}

// Providers returns the names of the configured providers.
func (r *Router) Providers() []string { return slices.Clone(r.table().names) }
