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

// writes are the writes that admission may stop, the most harmful first: without
// Leases nobody leads, without Nodes none is initialised. A patch is an update.
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

// sight is the set of writes that an admission rule matches.
type sight struct {
	rules []admissionv1.RuleWithOperations
	// selects: the rule matches only some objects; selectsNamespaces: only some
	// namespaces.
	selects, selectsNamespaces bool
}

// stops is the first matched resource that the manager writes, or "". A rule
// with an object selector stops none.
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

// is reports whether a rule's word means the resource. As in the API server "*"
// has no subresources, "*/*" has, and "nodes/*" includes the Nodes.
func (w written) is(word string) bool {
	resource, sub, _ := strings.Cut(word, "/")
	of, ofSub, _ := strings.Cut(w.resource, "/")
	return (resource == "*" || resource == of) && (sub == "*" || sub == ofSub)
}

func selects(s *metav1.LabelSelector) bool {
	return s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0
}
