package check

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// written is a resource that the manager writes.
type written struct {
	group, resource string
	scope           admissionv1.ScopeType
	operation       admissionv1.OperationType
}

// writes are what admission may stop, what hurts most first: without Leases nobody
// leads, without Nodes nothing is initialised. A patch is an update.
func writes() []written {
	const namespaced, cluster, update = admissionv1.NamespacedScope, admissionv1.ClusterScope, admissionv1.Update
	return []written{
		{"coordination.k8s.io", "leases", namespaced, update},
		{"", "nodes", cluster, update}, {"", "nodes/status", cluster, update},
		{"", "configmaps", namespaced, update}, {"", "configmaps", namespaced, admissionv1.Create},
		{"", "services", namespaced, update}, {"", "services/status", namespaced, update},
		{"", "persistentvolumes", cluster, update},
		{"", "nodes", cluster, admissionv1.Delete},
		{"", "events", namespaced, admissionv1.Create},
	}
}

// sight is what admission sees.
type sight struct {
	rules []admissionv1.RuleWithOperations
	// selects says that it sees only some objects, selectsNamespaces only some
	// namespaces.
	selects, selectsNamespaces bool
}

// stops is the first resource that the manager writes and that is seen, or "". Of what
// sees only some objects nothing is said.
func (s *sight) stops() string {
	for _, w := range writes() {
		if s.sees(w) {
			return w.resource
		}
	}
	return ""
}

func (s *sight) sees(w written) bool {
	if s.selects || s.selectsNamespaces && w.scope == admissionv1.NamespacedScope {
		return false
	}
	return slices.ContainsFunc(s.rules, func(r admissionv1.RuleWithOperations) bool { return w.matches(&r) })
}

func (w written) matches(r *admissionv1.RuleWithOperations) bool {
	operates := slices.Contains(r.Operations, w.operation) || slices.Contains(r.Operations, admissionv1.OperationAll)
	grouped := slices.Contains(r.APIGroups, w.group) || slices.Contains(r.APIGroups, "*")
	scoped := r.Scope == nil || *r.Scope == admissionv1.AllScopes || *r.Scope == w.scope
	return operates && grouped && scoped && slices.ContainsFunc(r.Resources, w.is)
}

// is says whether a rule's word means the resource. As in the API server "*" has no
// subresources, "*/*" has, and "nodes/*" has the Nodes, too.
func (w written) is(word string) bool {
	resource, sub, _ := strings.Cut(word, "/")
	of, ofSub, _ := strings.Cut(w.resource, "/")
	return (resource == "*" || resource == of) && (sub == "*" || sub == ofSub)
}

func selects(s *metav1.LabelSelector) bool {
	return s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0
}
