package check

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

const (
	ofPolicies = "validatingadmissionpolicies"
	ofBindings = "validatingadmissionpolicybindings"
)

// policies looks for admission policies that may refuse the manager's writes.
// Only the API server knows their decision about a write.
func (c *checker) policies(ctx context.Context) {
	c.section("Policies", "cluster", "no admission policy decides about the manager's writes", func() {
		denying := map[string][]*admissionv1.MatchResources{}
		api := c.client.AdmissionregistrationV1()
		c.readable(ofBindings, each(ctx, api.ValidatingAdmissionPolicyBindings().List, metav1.ListOptions{}, func(b *admissionv1.ValidatingAdmissionPolicyBinding) {
			if slices.Contains(b.Spec.ValidationActions, admissionv1.Deny) {
				denying[b.Spec.PolicyName] = append(denying[b.Spec.PolicyName], b.Spec.MatchResources)
			}
		}))
		c.readable(ofPolicies, each(ctx, api.ValidatingAdmissionPolicies().List, metav1.ListOptions{}, func(p *admissionv1.ValidatingAdmissionPolicy) {
			if stopped := decides(p, denying[p.Name]); stopped != "" {
				c.policy(p, stopped)
			}
		}))
	}, ofBindings, ofPolicies)
}

// decides is the first resource written by the manager and matched by a policy
// through one of its bindings, or "".
func decides(p *admissionv1.ValidatingAdmissionPolicy, bindings []*admissionv1.MatchResources) string {
	if len(p.Spec.MatchConditions) > 0 {
		return "" // it matches only some requests
	}
	for _, w := range writes() {
		if constrained(p.Spec.MatchConstraints, w) && slices.ContainsFunc(bindings, func(m *admissionv1.MatchResources) bool {
			return m == nil || len(m.ResourceRules) == 0 && !narrowed(m, w) || constrained(m, w)
		}) {
			return w.resource
		}
	}
	return ""
}

func constrained(m *admissionv1.MatchResources, w written) bool {
	return m != nil && !narrowed(m, w) && slices.ContainsFunc(m.ResourceRules, func(r admissionv1.NamedRuleWithOperations) bool {
		return len(r.ResourceNames) == 0 && w.matches(&r.RuleWithOperations)
	})
}

// narrowed reports whether a match excludes some of these objects.
func narrowed(m *admissionv1.MatchResources, w written) bool {
	return selects(m.ObjectSelector) || selects(m.NamespaceSelector) && w.scope == admissionv1.NamespacedScope ||
		slices.ContainsFunc(m.ExcludeResourceRules, func(r admissionv1.NamedRuleWithOperations) bool { return w.matches(&r.RuleWithOperations) })
}

func (c *checker) policy(p *admissionv1.ValidatingAdmissionPolicy, stopped string) {
	what := fmt.Sprintf("each write of %s, the manager's too", stopped)
	ignored := p.Spec.FailurePolicy != nil && *p.Spec.FailurePolicy == admissionv1.Ignore
	if checked := p.Status.TypeChecking; checked != nil && len(checked.ExpressionWarnings) > 0 && !ignored {
		what += "; an expression of it that fails refuses, and by the API server " + text.Name(checked.ExpressionWarnings[0].FieldRef) + " may fail: " + checked.ExpressionWarnings[0].Warning
	}
	c.tell(report.PolicyInTheWay, "validatingadmissionpolicy "+p.Name, what)
}
