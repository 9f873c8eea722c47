package check

import (
	"net/http"
	"net/http/httptest"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	restclient "k8s.io/client-go/rest"
)

func ruleOf(group, resource string, operations ...admissionv1.OperationType) admissionv1.RuleWithOperations {
	return admissionv1.RuleWithOperations{Operations: operations, Rule: admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}}}
}

// The rules of a webhook mean the same as to the API server.
func TestWhichWritesAreSeen(t *testing.T) {
	const update, create, all = admissionv1.Update, admissionv1.Create, admissionv1.OperationAll
	within := func(r admissionv1.RuleWithOperations, scope admissionv1.ScopeType) admissionv1.RuleWithOperations {
		r.Scope = &scope
		return r
	}
	for name, test := range map[string]struct {
		sight
		want string
	}{
		"everything":            {sight: sight{rules: []admissionv1.RuleWithOperations{ruleOf("*", "*/*", all)}}, want: "leases"},
		"leases":                {sight: sight{rules: []admissionv1.RuleWithOperations{ruleOf("coordination.k8s.io", "leases", update)}}, want: "leases"},
		"a core group":          {sight: sight{rules: []admissionv1.RuleWithOperations{ruleOf("", "*", update)}}, want: "nodes"},
		"a status":              {sight: sight{rules: []admissionv1.RuleWithOperations{ruleOf("", "nodes/status", update)}}, want: "nodes/status"},
		"all of services":       {sight: sight{rules: []admissionv1.RuleWithOperations{ruleOf("", "services/*", update)}}, want: "services"},
		"each status":           {sight: sight{rules: []admissionv1.RuleWithOperations{ruleOf("", "*/status", update)}}, want: "nodes/status"},
		"ends of Nodes":         {sight: sight{rules: []admissionv1.RuleWithOperations{ruleOf("", "nodes", admissionv1.Delete)}}, want: "nodes"},
		"Events":                {sight: sight{rules: []admissionv1.RuleWithOperations{ruleOf("", "events", create)}}, want: "events"},
		"new Nodes":             {sight: sight{rules: []admissionv1.RuleWithOperations{ruleOf("", "nodes", create)}}},
		"Pods":                  {sight: sight{rules: []admissionv1.RuleWithOperations{ruleOf("", "pods", all)}}},
		"another status":        {sight: sight{rules: []admissionv1.RuleWithOperations{ruleOf("apps", "*/status", update)}}},
		"some objects":          {sight: sight{rules: []admissionv1.RuleWithOperations{ruleOf("*", "*", all)}, selects: true}},
		"some namespaces":       {sight: sight{rules: []admissionv1.RuleWithOperations{ruleOf("*", "*", all)}, selectsNamespaces: true}, want: "nodes"},
		"what is in namespaces": {sight: sight{rules: []admissionv1.RuleWithOperations{within(ruleOf("", "*", update), admissionv1.NamespacedScope)}}, want: "configmaps"},
	} {
		if got := test.stops(); got != test.want {
			t.Errorf("%s: stopped is %q, want %q", name, got, test.want)
		}
	}
}

// A policy is reported if one of its bindings makes it decide about the manager's writes.
func TestWhichPoliciesDecide(t *testing.T) {
	nodes := []admissionv1.NamedRuleWithOperations{{RuleWithOperations: ruleOf("", "nodes", admissionv1.Update)}}
	some := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	everywhere := []*admissionv1.MatchResources{nil}
	for name, test := range map[string]struct {
		constraints admissionv1.MatchResources
		conditions  []admissionv1.MatchCondition
		bindings    []*admissionv1.MatchResources
		want        string
	}{
		"bound":                   {constraints: admissionv1.MatchResources{ResourceRules: nodes}, bindings: everywhere, want: "nodes"},
		"bound to these":          {constraints: admissionv1.MatchResources{ResourceRules: nodes}, bindings: []*admissionv1.MatchResources{{ResourceRules: nodes}}, want: "nodes"},
		"in some namespaces":      {constraints: admissionv1.MatchResources{ResourceRules: nodes, NamespaceSelector: some}, bindings: []*admissionv1.MatchResources{{NamespaceSelector: some}}, want: "nodes"},
		"not bound":               {constraints: admissionv1.MatchResources{ResourceRules: nodes}},
		"bound to others":         {constraints: admissionv1.MatchResources{ResourceRules: nodes}, bindings: []*admissionv1.MatchResources{{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: ruleOf("", "pods", admissionv1.Update)}}}}},
		"bound to some":           {constraints: admissionv1.MatchResources{ResourceRules: nodes}, bindings: []*admissionv1.MatchResources{{ObjectSelector: some}}},
		"some requests":           {constraints: admissionv1.MatchResources{ResourceRules: nodes}, conditions: []admissionv1.MatchCondition{{Name: "c", Expression: "true"}}, bindings: everywhere},
		"some names":              {constraints: admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{ResourceNames: []string{"a"}, RuleWithOperations: nodes[0].RuleWithOperations}}}, bindings: everywhere},
		"all but these":           {constraints: admissionv1.MatchResources{ResourceRules: nodes, ExcludeResourceRules: nodes}, bindings: everywhere},
		"without any constraints": {bindings: everywhere},
	} {
		p := &admissionv1.ValidatingAdmissionPolicy{Spec: admissionv1.ValidatingAdmissionPolicySpec{MatchConstraints: &test.constraints, MatchConditions: test.conditions}}
		if got := decides(p, test.bindings); got != test.want {
			t.Errorf("%s: decided is %q, want %q", name, got, test.want)
		}
	}
}

// A webhook without ready Pods is reported like a webhook without Pods.
func TestAWebhookIsServedByWhatIsReady(t *testing.T) {
	for conditions, want := range map[string]Finding{
		`{"ready": false}`: {Severity: Error, Reason: "WebhookBlocks", What: "nothing ready is behind Service guards/guard of webhook nodes.example.com"},
		`{"ready": true}`:  {Severity: Warning, Reason: "WebhookInTheWay", What: "ready Pods are behind Service guards/guard"},
		`{}`:               {Severity: Warning, Reason: "WebhookInTheWay"},
	} {
		answers := map[string]string{
			"/version": `{"gitVersion": "v1.37.0"}`,
			"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": `{"items": [{"metadata": {"name": "guard"}, "webhooks": [{"name": "nodes.example.com",
				"clientConfig": {"service": {"namespace": "guards", "name": "guard"}}, "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["nodes"]}]}]}]}`,
			"/api/v1/namespaces/guards/services/guard":                   `{"metadata": {"name": "guard"}}`,
			"/apis/discovery.k8s.io/v1/namespaces/guards/endpointslices": `{"items": [{"endpoints": [{"addresses": ["192.0.2.1"], "conditions": ` + conditions + `}]}]}`,
		}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if answer, ok := answers[r.URL.Path]; ok {
				_, _ = w.Write([]byte(answer))
				return
			}
			refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		}))
		findings, err := Run(t.Context(), &restclient.Config{Host: server.URL}, largeOptions())
		server.Close()
		want.Where = "validatingwebhookconfiguration guard"
		if err != nil || !found(findings, want) {
			t.Errorf("%s: %v, %+v is not in %+v", conditions, err, want, findings)
		}
	}
}
