package deploy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/test/hostconfig"
)

// TestRelease installs, upgrades, rolls back and uninstalls the chart on a cluster
// as kubeadm makes it, where kube-controller-manager has made some of the
// controllers' accounts.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	depend(t)
	r := &releases{cluster: start(t)}
	for _, name := range []string{"node-controller", "service-controller"} {
		r.account(t, name)
	}
	r.install(t, "chart/examples/static.yaml")
	t.Run("accounts", r.accounts)
	t.Run("providers come and go", r.providers)
	t.Run("image", r.image)
	t.Run("refused", r.refused)
	t.Run("another kind", r.kind)
	t.Run("modules in parts", func(t *testing.T) { r.install(t, "chart/examples/modules.yaml") })
	t.Run("uninstall", r.uninstall)
	t.Run("installed again", func(t *testing.T) { r.install(t, "chart/examples/modules.yaml") })
	r.helm(t, "uninstall", release)
	t.Run("from kubectl", r.takeover)
	r.helm(t, "uninstall", release)
	t.Run("another namespace", r.elsewhere)
}

type releases struct{ cluster }

func (r *releases) account(t *testing.T, name string) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	if _, err := r.admin.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// accounts: those that were there are not Helm's, the others are, in every
// release from now on.
func (r *releases) accounts(t *testing.T) {
	want := map[string]string{"cloud-controller-manager": release, "node-controller": "", "service-controller": "", "route-controller": release, "persistentvolume-label-controller": release}
	r.install(t, "chart/examples/static.yaml")
	for name, owner := range want {
		account, err := r.admin.CoreV1().ServiceAccounts(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := account.Annotations["meta.helm.sh/release-name"]; got != owner {
			t.Errorf("the account %s is of the release %q, want %q", name, got, owner)
		}
	}
	// kube-controller-manager makes it again; where there is none, the next release does.
	r.kubectl(t, "-n", namespace, "delete", "serviceaccount", "node-controller")
	r.install(t, "chart/examples/static.yaml")
	if _, err := r.admin.CoreV1().ServiceAccounts(namespace).Get(t.Context(), "node-controller", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// providers come and go without a change of the pods: the manager reads its file
// again.
func (r *releases) providers(t *testing.T) {
	before := r.daemonSet(t)
	r.install(t, "chart/examples/providers.yaml")
	if diff := cmp.Diff([]string{"static", "openstack"}, r.configured(t)); diff != "" {
		t.Errorf("the providers (-want +got):\n%s", diff)
	}
	r.install(t, "chart/examples/providers.yaml", "providers[1].grants[0].host=api.example.org", "providers[1].name=openstack")
	r.kubectl(t, "-n", namespace, "create", "configmap", "wasm-ccm-provider-openstack", "--from-literal=status=Kept") // as the manager does
	r.install(t, "chart/examples/static.yaml")
	if after := r.daemonSet(t); after.Generation != before.Generation {
		t.Errorf("the pods are replaced: %s", cmp.Diff(before.Spec, after.Spec))
	}
	if diff := cmp.Diff([]string{"configmaps wasm-ccm-provider-openstack"}, r.role(t, "openstack")); diff != "" {
		t.Errorf("of the provider that was taken out the manager may change (-want +got):\n%s", diff)
	}
	r.install(t, "chart/examples/static.yaml") // it stays
	if len(r.role(t, "openstack")) != 1 {
		t.Error("another release has taken the right to the status of a provider that was taken out")
	}
	r.kubectl(t, "-n", namespace, "delete", "configmap", "wasm-ccm-provider-openstack")
	r.install(t, "chart/examples/static.yaml")
	if names := r.role(t, "openstack"); names != nil {
		t.Errorf("nothing is left of the provider, and the manager may change %q", names)
	}
	// Whether CloudProviders are read takes effect at a manager's start.
	r.install(t, "chart/examples/static.yaml", "cloudProviders.enabled=true")
	if enabled := r.daemonSet(t); enabled.Generation == before.Generation {
		t.Error("no pod is replaced, and none reads CloudProviders")
	}
	r.install(t, "chart/examples/static.yaml")
}

// image replaces the pods, and what selects them stays the same.
func (r *releases) image(t *testing.T) {
	before := r.daemonSet(t)
	r.install(t, "chart/examples/static.yaml", "image.tag=v9.9.9")
	after := r.daemonSet(t)
	if got := after.Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(got, ":v9.9.9") || after.Generation == before.Generation {
		t.Errorf("the image is %s in generation %d", got, after.Generation)
	}
	// Nobody may change it from one version of the chart to the next.
	if diff := cmp.Diff(map[string]string{"app.kubernetes.io/name": manager}, after.Spec.Selector.MatchLabels); diff != "" {
		t.Errorf("the selector, which cannot change (-want +got):\n%s", diff)
	}
	r.helm(t, "rollback", release)
	if got := r.daemonSet(t).Spec.Template.Spec.Containers[0].Image; got != before.Spec.Template.Spec.Containers[0].Image {
		t.Errorf("after a rollback the image is %s", got)
	}
}

// refused values change nothing.
func (r *releases) refused(t *testing.T) {
	before := string(r.helm(t, "history", release))
	if _, err := r.tryHelm(t, "upgrade", release, chart, "--set", "providers[0].name=static,providers[0].grant=x"); err == nil || !strings.Contains(err.Error(), "grant") {
		t.Errorf("a misspelt field: %v", err)
	}
	if diff := cmp.Diff(before, string(r.helm(t, "history", release))); diff != "" {
		t.Errorf("refused values make a revision:\n%s", diff)
	}
}

// kind turns the DaemonSet into a Deployment with its budget, and back.
func (r *releases) kind(t *testing.T) {
	r.install(t, "chart/examples/deployment.yaml")
	if _, err := r.admin.AppsV1().DaemonSets(namespace).Get(t.Context(), manager, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the DaemonSet beside the Deployment: %v", err)
	}
	budget, err := r.admin.PolicyV1().PodDisruptionBudgets(namespace).Get(t.Context(), manager, metav1.GetOptions{})
	if err != nil || budget.Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("the budget is %v, %v", budget, err)
	}
	r.install(t, "chart/examples/static.yaml")
	r.daemonSet(t)
	if list, err := r.admin.AppsV1().Deployments(namespace).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("the Deployment beside the DaemonSet: %v", err)
	}
}

// uninstall leaves what the manager and the administrator have made, and what
// was there before.
func (r *releases) uninstall(t *testing.T) {
	state := []string{"configmap/wasm-ccm-store-static", "configmap/wasm-ccm-provider-static", "configmap/wasm-ccm-module-static-a0", "configmap/cloud-provider-static"}
	for _, name := range state {
		r.kubectl(t, "-n", namespace, "create", "configmap", strings.TrimPrefix(name, "configmap/"))
	}
	r.kubectl(t, "-n", modulesNamespace, "create", "configmap", "cloud-provider-static")
	r.helm(t, "uninstall", release)
	r.kubectl(t, append([]string{"-n", namespace, "get", "serviceaccount/service-controller"}, state...)...)
	r.kubectl(t, "-n", modulesNamespace, "get", "configmap/cloud-provider-static")
	left := r.kubectl(t, "get", "--all-namespaces", "-l", "app.kubernetes.io/part-of=wasm-ccm", "-o", "name",
		"serviceaccounts,configmaps,clusterroles,clusterrolebindings,roles,rolebindings,daemonsets,deployments,poddisruptionbudgets,namespaces")
	if got := strings.TrimSpace(string(left)); got != "namespace/"+modulesNamespace {
		t.Errorf("left are %s", got)
	}
}

// takeover makes a release of what kubectl apply -k has made, without new pods.
func (r *releases) takeover(t *testing.T) {
	r.kubectl(t, "apply", "-k", ".")
	before := r.daemonSet(t)
	r.helm(t, "install", release, chart, "--take-ownership", "--force-conflicts")
	if after := r.daemonSet(t); after.UID != before.UID || after.Generation != before.Generation {
		t.Errorf("the DaemonSet is another one: %s", cmp.Diff(before.Spec, after.Spec))
	}
	r.install(t, "chart/examples/providers.yaml", "--force-conflicts")
	if diff := cmp.Diff([]string{"static", "openstack"}, r.configured(t)); diff != "" {
		t.Error(diff)
	}
}

// elsewhere is a namespace of the release's own. The accounts of the controllers
// stay in kube-system.
func (r *releases) elsewhere(t *testing.T) {
	const where = "cloud-system"
	r.kubectl(t, "create", "namespace", where)
	r.kubectl(t, configMapCommand(t, where, built(t, "static.wasm"))...)
	log := r.runManager(t, where, "chart/examples/static.yaml")
	createNode(t, r.cluster)
	await(t, log, "the node is initialised", func(ctx context.Context) (bool, error) {
		node, err := r.admin.CoreV1().Nodes().Get(ctx, "m1", metav1.GetOptions{})
		return err == nil && initialised(node), err
	})
	await(t, log, "the state is in the namespace", func(ctx context.Context) (bool, error) {
		_, err := r.admin.CoreV1().ConfigMaps(where).Get(ctx, "wasm-ccm-provider-static", metav1.GetOptions{})
		return err == nil, ignoreNotFound(err)
	})
	checkRights(t, log)
}

func (r *releases) daemonSet(t *testing.T) *appsv1.DaemonSet {
	t.Helper()
	daemonSet, err := r.admin.AppsV1().DaemonSets(namespace).Get(t.Context(), manager, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return daemonSet
}

// configured are the names of the providers in the file that the manager reads.
func (r *releases) configured(t *testing.T) (names []string) {
	t.Helper()
	object, err := r.admin.CoreV1().ConfigMaps(namespace).Get(t.Context(), manager, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	configuration, err := hostconfig.Decode([]byte(object.Data["config.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	for i := range configuration.Providers {
		names = append(names, configuration.Providers[i].Name)
	}
	return names
}

// role are the objects that the role of a provider names, nil without one.
func (r *releases) role(t *testing.T, provider string) []string {
	t.Helper()
	role, err := r.admin.RbacV1().Roles(namespace).Get(t.Context(), fmt.Sprintf("wasm-ccm:provider:%s", provider), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return configMapsAndSecrets(role.Rules)
}
