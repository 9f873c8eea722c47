package deploy_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
)

// modulesNamespace is that of the example with modules in parts.
const modulesNamespace = "wasm-ccm-modules"

// testGranted compares all that each identity may do in the namespaces of the
// release with what stands here, so that nothing is granted by the way. What
// every ServiceAccount may do is left out.
func testGranted(t *testing.T, c cluster, example string) {
	configuration, providers := providersOf(t, example)
	events := "events: create patch update"
	everywhere := []string{
		events,
		"leases.coordination.k8s.io: list",
		"namespaces [kube-system]: get",
		"nodes services persistentvolumes: list watch",
		"servicecidrs.networking.k8s.io: list",
		"subjectaccessreviews.authorization.k8s.io: create",
		"tokenreviews.authentication.k8s.io: create",
	}
	if configuration.CloudProviders.Enabled {
		everywhere = append(everywhere, "cloudproviders.config.wasm-ccm.dev: list watch", "cloudproviders/status.config.wasm-ccm.dev: patch")
	}
	here := append(slices.Clone(everywhere),
		"configmaps [extension-apiserver-authentication]: get list watch",
		"configmaps: create",
		"leases.coordination.k8s.io [cloud-controller-manager cloud-provider-extraction-migration]: get update",
		"leases.coordination.k8s.io: create",
		"pods: get",
		"serviceaccounts [node-controller service-controller route-controller persistentvolume-label-controller]: get",
		"serviceaccounts/token [node-controller service-controller route-controller persistentvolume-label-controller]: create",
	)
	modules := everywhere
	for i := range providers {
		here = append(here, rightsFor(&providers[i])...)
		if s := providers[i].Source.ConfigMap; s != nil && s.Namespace == modulesNamespace {
			modules = append(slices.Clone(everywhere), "configmaps: get list watch")
		}
	}
	c.awaitGranted(t, manager, namespace, here)
	c.awaitGranted(t, manager, modulesNamespace, modules)
	c.awaitGranted(t, "persistentvolume-label-controller", namespace, []string{events, "persistentvolumes: list watch patch"})
	if got := granted(t, c, "service-controller", namespace); (len(providers) > 1 || configuration.CloudProviders.Enabled) && !slices.Contains(got, "services: get") {
		t.Errorf("granted to service-controller: %q, want services: get, too", got)
	}
}

// rightsFor are those that a provider needs in kube-system.
func rightsFor(p *v1alpha1.Provider) []string {
	rights := []string{
		"configmaps [wasm-ccm-store-" + p.Store + "]: get update",
		"configmaps " + fmt.Sprint(rolloutNames(p.Name)) + ": get list watch update patch",
	}
	named := map[string][]string{}
	for _, r := range referencesOf(reflect.ValueOf(p).Elem(), "") {
		if r.Namespace == namespace {
			named[r.resource] = append(named[r.resource], r.Name)
		}
	}
	if slices.Contains(p.Kube.EndpointSlices, namespace) {
		rights = append(rights, "endpointslices.discovery.k8s.io: list watch")
	}
	for resource, names := range named {
		rights = append(rights, fmt.Sprintf("%s %v: list watch", resource, names))
	}
	return rights
}

// awaitGranted waits until an account has these rights and no others: the API
// server's authorizer learns of roles by a watch.
func (c cluster) awaitGranted(t *testing.T, account, where string, want []string) {
	t.Helper()
	slices.Sort(want)
	var diff string
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		diff = cmp.Diff(want, granted(t, c, account, where))
		return diff == "", nil
	})
	if err != nil {
		t.Errorf("granted to %s in %s (-want +got):\n%s", account, where, diff)
	}
}

// granted asks the API server for the rules of an account and takes away
// those of an account that has none of its own.
func granted(t *testing.T, c cluster, account, where string) []string {
	t.Helper()
	nobody := rulesOf(t, c, "nobody", where)
	return slices.DeleteFunc(rulesOf(t, c, account, where), func(rule string) bool { return slices.Contains(nobody, rule) })
}

func rulesOf(t *testing.T, c cluster, account, where string) []string {
	t.Helper()
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: where}}
	review, err := impersonate(t, c, account).AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil || review.Status.Incomplete {
		t.Fatalf("the rules of %s: %v, %s", account, err, review.Status.EvaluationError)
	}
	var rules []string
	for _, r := range review.Status.ResourceRules {
		rule := strings.Join(r.Resources, " ")
		if group := strings.Join(r.APIGroups, " "); group != "" {
			rule += "." + group
		}
		if len(r.ResourceNames) > 0 {
			rule += fmt.Sprint(" ", r.ResourceNames)
		}
		rules = append(rules, rule+": "+strings.Join(r.Verbs, " "))
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

func impersonate(t *testing.T, c cluster, account string) kubernetes.Interface {
	t.Helper()
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: userOf(account), Groups: groups()}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func userOf(account string) string { return "system:serviceaccount:" + namespace + ":" + account }

func groups() []string {
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
}

// testAllowed goes through the measured table, and through what a taken-over
// manager would like to have.
func testAllowed(t *testing.T, c cluster) {
	const in, out = namespace, "default"
	all := []string{manager, "node-controller", "service-controller", "route-controller", "persistentvolume-label-controller"}
	tests := []struct {
		accounts []string
		allowed  bool
		verbs    string
		resource string // [group/]resource[:subresource]
		where    string
		name     string
	}{
		{all, true, "create patch update", "events", out, ""},
		{all[:1], true, "list watch", "nodes", "", ""},
		{all[:1], true, "list watch", "services", "", ""},
		{all[:1], true, "list watch", "persistentvolumes", "", ""},
		{all[:1], true, "list", "networking.k8s.io/servicecidrs", "", ""},
		{all[:1], true, "create", "coordination.k8s.io/leases", in, ""},
		{all[:1], true, "get update", "coordination.k8s.io/leases", in, manager},
		{all[:1], true, "get update", "coordination.k8s.io/leases", in, "cloud-provider-extraction-migration"},
		{all[:1], true, "list", "coordination.k8s.io/leases", "kube-node-lease", ""},
		{all[:1], true, "get", "serviceaccounts", in, "node-controller"},
		{all[:1], true, "create", "serviceaccounts:token", in, "service-controller"},
		{all[:1], true, "get", "namespaces", "", "kube-system"},
		{all[:1], true, "list watch", "configmaps", in, "cloud-provider-static"},
		{all[:1], true, "get update", "configmaps", in, "wasm-ccm-store-static"},
		{all[:1], true, "create", "configmaps", in, ""},
		{all[:1], true, "get", "pods", in, manager + "-x"},
		{all[:1], true, "get list watch update patch", "configmaps", in, "wasm-ccm-provider-static"},
		{all[:1], true, "get list watch update patch", "configmaps", in, "wasm-ccm-module-static-a0"},
		{all[:1], true, "get list watch update patch", "configmaps", in, "wasm-ccm-module-static-c3"},
		{all[:1], true, "get", "configmaps", in, "extension-apiserver-authentication"},
		{all[:1], true, "create", "authentication.k8s.io/tokenreviews", "", ""},
		{all[:1], true, "create", "authorization.k8s.io/subjectaccessreviews", "", ""},
		{all[1:2], true, "get update patch delete", "nodes", "", "m1"},
		{all[1:2], true, "patch", "nodes:status", "", "m1"},
		{all[2:3], true, "patch", "services:status", out, "web"},
		{all[3:4], true, "patch", "nodes:status", "", "m1"},
		{all[4:], true, "list watch patch", "persistentvolumes", "", ""},

		{all, false, "get list watch create update patch delete", "secrets", in, ""},
		{all, false, "get", "configmaps", in, "cloud-provider-static"},
		{all, false, "get list", "secrets", out, ""},
		{all, false, "create deletecollection", "nodes", "", ""},
		{all, false, "create", "nodes:proxy", "", "m1"},
		{all, false, "get watch create update patch delete", "networking.k8s.io/servicecidrs", "", "kubernetes"},
		{all[1:], false, "list", "networking.k8s.io/servicecidrs", "", ""},
		{all, false, "get list watch", "discovery.k8s.io/endpointslices", in, ""},
		{all, false, "create update patch", "pods", in, ""},
		{all, false, "create", "pods:exec", in, "x"},
		{all, false, "create update patch delete", "apps/deployments", in, ""},
		{all, false, "create update patch delete", "apps/daemonsets", in, ""},
		{all, false, "create update patch delete bind escalate", "rbac.authorization.k8s.io/clusterroles", "", ""},
		{all, false, "create update patch delete", "rbac.authorization.k8s.io/clusterrolebindings", "", ""},
		{all, false, "impersonate", "users", "", ""},
		{all, false, "create update patch delete", "services", out, ""},
		{all, false, "create delete", "persistentvolumes", "", ""},
		{all, false, "list watch delete deletecollection", "configmaps", in, ""},
		{all, false, "get update patch delete", "configmaps", in, "kubeadm-config"},
		{all, false, "update patch delete", "configmaps", in, "cloud-provider-static"},
		{all, false, "get create", "configmaps", out, "cloud-provider-static"},
		{all, false, "get list watch create update patch delete", "configmaps", "wasm-ccm-modules", ""},
		{all, false, "get update patch delete", "configmaps", in, manager},
		{all, false, "get list watch", "secrets", "wasm-ccm-modules", ""},
		{all, false, "delete", "configmaps", in, "wasm-ccm-provider-static"},
		{all, false, "get update patch delete", "configmaps", in, "wasm-ccm-provider-another"},
		{all, false, "get update patch delete", "configmaps", in, "wasm-ccm-module-static-a4"},
		{all[1:], false, "get update patch", "configmaps", in, "wasm-ccm-provider-static"},
		{all, false, "create", "serviceaccounts", in, ""},
		{all, false, "create", "serviceaccounts:token", in, "default"},
		{all, false, "create", "serviceaccounts:token", in, manager},
		{all, false, "update delete", "coordination.k8s.io/leases", in, "kube-controller-manager"},
		{all, false, "update patch delete", "coordination.k8s.io/leases", "kube-node-lease", "m1"},
		{all[2:], false, "list", "coordination.k8s.io/leases", "kube-node-lease", ""},
		{all, false, "create update", "certificates.k8s.io/certificatesigningrequests", "", ""},
		{all[:1], false, "get update patch delete", "nodes", "", "m1"},
		{all[:1], false, "patch update", "services:status", out, "web"},
		{all[:1], false, "patch update delete get", "persistentvolumes", "", "v"},
		{all[:1], false, "list watch delete", "pods", in, ""},
		{all[:1], false, "get", "pods:log", in, "x"},
		{all[:1], false, "get", "pods", out, "x"},
		{all[2:], false, "get", "pods", in, "x"},
		{all[:1], false, "patch update delete list", "namespaces", "", "kube-system"},
	}
	for _, test := range tests {
		for _, account := range test.accounts {
			for _, verb := range strings.Fields(test.verbs) {
				if got := may(t, c, account, verb, test.resource, test.where, test.name); got != test.allowed {
					t.Errorf("%s: %s %s %s in %q: allowed is %v, want %v", account, verb, test.resource, test.name, test.where, got, test.allowed)
				}
			}
		}
	}
}

func may(t *testing.T, c cluster, account, verb, resource, where, name string) bool {
	t.Helper()
	attributes := &authorizationv1.ResourceAttributes{Verb: verb, Namespace: where, Name: name}
	group, rest, ok := strings.Cut(resource, "/")
	if !ok {
		group, rest = "", resource
	}
	attributes.Group = group
	attributes.Resource, attributes.Subresource, _ = strings.Cut(rest, ":")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: userOf(account), Groups: groups(), ResourceAttributes: attributes}}
	review, err := c.admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// testTokens does what --use-service-account-credentials does, and more than
// it should.
func testTokens(t *testing.T, c cluster) {
	accounts := impersonate(t, c, manager).CoreV1().ServiceAccounts(namespace)
	if _, err := accounts.CreateToken(t.Context(), "node-controller", &authenticationv1.TokenRequest{}, metav1.CreateOptions{}); err != nil {
		t.Errorf("a token of node-controller: %v", err)
	}
	other := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "clusterrole-aggregation-controller", Namespace: namespace}}
	if _, err := c.admin.CoreV1().ServiceAccounts(namespace).Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := accounts.CreateToken(t.Context(), other.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a token of %s: %v, want it to be forbidden", other.Name, err)
	}
}
