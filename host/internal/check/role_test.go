package check

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// Who has the Role of ccmctl's users is told why no Pod of the manager runs: ccmctl status
// and check ask for nothing else then.
func TestTheRoleOfCcmctlTellsWhyNoPodRuns(t *testing.T) {
	rules, refused := ccmctlRules(t), []string(nil)
	requests := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := requests.NewRequestInfo(r)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		switch {
		case !slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool { return allows(rule, info) }):
			refused = append(refused, info.Verb+" "+info.Resource+" "+info.Name)
			refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden)
		case info.Resource == "daemonsets":
			_ = json.NewEncoder(w).Encode(appsv1.DaemonSet{TypeMeta: metav1.TypeMeta{Kind: "DaemonSet", APIVersion: "apps/v1"},
				Status: appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 3}})
		case info.Resource == "events":
			_ = json.NewEncoder(w).Encode(corev1.EventList{TypeMeta: metav1.TypeMeta{Kind: "EventList", APIVersion: "v1"},
				Items: []corev1.Event{{Reason: "FailedCreate", Message: "exceeded quota", LastTimestamp: metav1.Now()}}})
		default:
			refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		}
	}))
	t.Cleanup(server.Close)
	found := Missing(t.Context(), kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL}), "kube-system", nil)
	if len(found) != 1 || !strings.Contains(found[0].What, "exceeded quota") || refused != nil {
		t.Errorf("refused are %q; told is %+v", refused, found)
	}
}

// ccmctlRules are those of the Role in the manifests, which are the chart's.
func ccmctlRules(t *testing.T) []rbacv1.PolicyRule {
	t.Helper()
	rendered, err := os.ReadFile("../../../deploy/manifests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(rendered), "\n---\n") {
		var role rbacv1.Role
		if yaml.Unmarshal([]byte(document), &role) == nil && role.Kind == "Role" && role.Name == "wasm-ccm:ccmctl" {
			return role.Rules
		}
	}
	t.Fatal("there is no Role of ccmctl")
	return nil
}

// allows is the rule of RBAC for a request.
func allows(rule rbacv1.PolicyRule, r *request.RequestInfo) bool {
	return slices.Contains(rule.Verbs, r.Verb) && slices.Contains(rule.APIGroups, r.APIGroup) && slices.Contains(rule.Resources, r.Resource) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, r.Name))
}
