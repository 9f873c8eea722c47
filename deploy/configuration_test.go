package deploy_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
)

// testConfiguration checks that the example of a HostConfiguration is one, and
// that the roles beside it name the objects of its providers and no others.
func testConfiguration(t *testing.T, c cluster, variant string) {
	data, err := os.ReadFile(filepath.Join(variant, "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	configuration, err := v1alpha1.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, p := range configuration.Providers {
		want = append(want, objectsOf(p)...)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, namedInRoles(t, c.kubectl(t, "kustomize", variant))); diff != "" {
		t.Errorf("what the roles name (-of %s/config.yaml +of the roles):\n%s", variant, diff)
	}
}

// objectsOf are the objects that the manager needs for a provider.
func objectsOf(p v1alpha1.Provider) []string {
	store := p.Store
	if store == "" {
		store = "static" // the module of the example says so
	}
	names := []string{"configmaps " + p.Source.ConfigMap.Name, "configmaps wasm-ccm-store-" + store}
	for _, name := range rolloutNames(p.Name) {
		names = append(names, "configmaps "+name)
	}
	for _, credential := range p.Credentials {
		names = append(names, "secrets "+credential.Secret.Name)
	}
	return names
}

// rolloutNames are the ConfigMaps of a provider's rollouts.
func rolloutNames(provider string) []string {
	names := []string{"wasm-ccm-provider-" + provider}
	for _, set := range "ab" {
		for i := range 4 {
			names = append(names, fmt.Sprintf("wasm-ccm-module-%s-%c%d", provider, set, i))
		}
	}
	return names
}

// namedInRoles are the ConfigMaps and Secrets that the bound Roles of the
// manager give it by name.
func namedInRoles(t *testing.T, rendered []byte) []string {
	t.Helper()
	roles, bound := map[string]rbacv1.Role{}, map[string]bool{}
	for _, document := range bytes.Split(rendered, []byte("\n---\n")) {
		var role rbacv1.Role
		var binding rbacv1.RoleBinding
		if yaml.Unmarshal(document, &role) == nil && role.Kind == "Role" {
			roles[role.Name] = role
		}
		if yaml.Unmarshal(document, &binding) == nil && binding.Kind == "RoleBinding" && binding.RoleRef.Kind == "Role" {
			bound[binding.RoleRef.Name] = binding.Subjects[0].Name == manager
		}
	}
	var names []string
	for _, role := range roles {
		if !bound[role.Name] {
			t.Errorf("the role %s is not bound to the manager", role.Name)
		}
		names = append(names, configMapsAndSecrets(role.Rules)...)
	}
	slices.Sort(names)
	return names
}

func configMapsAndSecrets(rules []rbacv1.PolicyRule) (names []string) {
	for _, rule := range rules {
		if r := rule.Resources[0]; r == "configmaps" || r == "secrets" {
			for _, name := range rule.ResourceNames {
				names = append(names, r+" "+name)
			}
		}
	}
	return names
}

// testOwner gives service-controller's account what providers/ does, with which
// it reads a Service and sets the label of its owner, through the Service's
// status. Kubernetes' own bootstrap roles let that account read Services, too,
// where they were not removed.
func testOwner(t *testing.T, c cluster) {
	const label = "wasm-ccm.dev/load-balancer-provider"
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "owned", Namespace: "default"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if _, err := c.admin.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := []byte(`{"metadata":{"labels":{"` + label + `":"static"}}}`)
	services := impersonate(t, c, "service-controller").CoreV1().Services("default")
	claim := func(ctx context.Context) (*corev1.Service, error) {
		if _, err := services.Get(ctx, service.Name, metav1.GetOptions{}); err != nil {
			return nil, err
		}
		return services.Patch(ctx, service.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	c.kubectl(t, "apply", "-f", "providers/owner.yaml")
	defer c.kubectl(t, "delete", "-f", "providers/owner.yaml")
	// The API server's authorizer learns of it by a watch.
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		patched, err := claim(ctx)
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil && patched.Labels[label] == "static", err
	})
	if err != nil {
		t.Errorf("with those for several: %v", err)
	}
}
