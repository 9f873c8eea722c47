package check

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// webhook is one of either kind of configuration.
type webhook struct {
	name    string
	service *admissionv1.ServiceReference
	rules   []admissionv1.RuleWithOperations
	// selects says that it sees only some objects, selectsNamespaces only some
	// namespaces.
	selects, selectsNamespaces bool
}

// written are the resources without whose writes nothing is initialised: what a
// webhook that does not answer must not stop.
var written = []struct {
	group, resource string
	scope           admissionv1.ScopeType
}{
	{"", "nodes", admissionv1.ClusterScope}, {"", "nodes/status", admissionv1.ClusterScope},
	{"", "services/status", admissionv1.NamespacedScope}, {"coordination.k8s.io", "leases", admissionv1.NamespacedScope},
}

// webhooks looks for admission webhooks that nobody serves and that stop the
// manager's writes.
func (c *checker) webhooks(ctx context.Context) {
	c.section("Webhooks", "cluster", "no admission webhook without a Pod stops the manager's writes", func() {
		all, ok := c.allWebhooks(ctx)
		if !ok {
			return
		}
		for _, w := range all {
			c.webhook(ctx, w)
		}
	})
}

// allWebhooks are those that refuse when their Service does not answer.
func (c *checker) allWebhooks(ctx context.Context) (all []webhook, ok bool) {
	validating, err := c.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if !c.readable("validatingwebhookconfigurations", err) {
		return nil, false
	}
	mutating, err := c.client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if !c.readable("mutatingwebhookconfigurations", err) {
		return nil, false
	}
	for _, configuration := range validating.Items {
		for _, w := range configuration.Webhooks {
			if fails(w.FailurePolicy, w.ClientConfig) {
				all = append(all, webhook{"validatingwebhookconfiguration " + configuration.Name, w.ClientConfig.Service, w.Rules, selects(w.ObjectSelector) || len(w.MatchConditions) > 0, selects(w.NamespaceSelector)})
			}
		}
	}
	for _, configuration := range mutating.Items {
		for _, w := range configuration.Webhooks {
			if fails(w.FailurePolicy, w.ClientConfig) {
				all = append(all, webhook{"mutatingwebhookconfiguration " + configuration.Name, w.ClientConfig.Service, w.Rules, selects(w.ObjectSelector) || len(w.MatchConditions) > 0, selects(w.NamespaceSelector)})
			}
		}
	}
	return all, true
}

func fails(policy *admissionv1.FailurePolicyType, client admissionv1.WebhookClientConfig) bool {
	return (policy == nil || *policy == admissionv1.Fail) && client.Service != nil
}

func selects(s *metav1.LabelSelector) bool {
	return s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0
}

func (c *checker) webhook(ctx context.Context, w webhook) {
	stopped := w.stops()
	if stopped == "" || c.served(ctx, w.service) {
		return
	}
	c.error("WebhookBlocks", w.name, fmt.Sprintf("no Pod is behind its Service %s/%s, and so each write of %s is refused: the manager can initialise no Node, or cannot lead", w.service.Namespace, w.service.Name, stopped),
		"start its Pods on the nodes that there are, take the manager's objects out of its rules, or set failurePolicy: Ignore")
}

// stops is the first resource that the manager writes and the webhook sees, or "".
// Of one that sees only some objects nothing is said.
func (w webhook) stops() string {
	for _, rule := range w.rules {
		for _, r := range written {
			seen := matches(rule.APIGroups, r.group) && (matches(rule.Resources, r.resource) || slices.Contains(rule.Resources, "*/*")) && updates(rule)
			if seen && !w.selects && inScope(rule.Scope, r.scope) && (!w.selectsNamespaces || r.scope == admissionv1.ClusterScope) {
				return r.resource
			}
		}
	}
	return ""
}

func updates(rule admissionv1.RuleWithOperations) bool {
	return slices.Contains(rule.Operations, admissionv1.Update) || slices.Contains(rule.Operations, admissionv1.OperationAll)
}

func inScope(of *admissionv1.ScopeType, scope admissionv1.ScopeType) bool {
	return of == nil || *of == admissionv1.AllScopes || *of == scope
}

func matches(all []string, one string) bool {
	return slices.Contains(all, one) || slices.Contains(all, "*")
}

// served says whether something ready is behind a Service, or it is not known.
func (c *checker) served(ctx context.Context, s *admissionv1.ServiceReference) bool {
	service, err := c.client.CoreV1().Services(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false
	}
	if !c.readable("service "+s.Namespace+"/"+s.Name, err) || service.Spec.Type == corev1.ServiceTypeExternalName {
		return true
	}
	ready := false
	err = each(ctx, c.client.DiscoveryV1().EndpointSlices(s.Namespace).List, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + s.Name}, func(slice *discoveryv1.EndpointSlice) {
		ready = ready || slices.ContainsFunc(slice.Endpoints, isReady)
	})
	return !c.readable("endpointslices of service "+s.Namespace+"/"+s.Name, err) || ready
}

// isReady says whether an endpoint takes connections; one that does not say it does.
func isReady(e discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }
