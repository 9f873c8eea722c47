package check

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
)

const (
	chart            = "../../../deploy/chart"
	modulesNamespace = "wasm-ccm-modules"
)

// Rights equal those of the chart, no more and no less, for each example of its
// values.
func TestRightsAreTheChart(t *testing.T) {
	examples, err := filepath.Glob(chart + "/examples/*.yaml")
	if err != nil || len(examples) < 5 {
		t.Fatalf("%d examples, %v", len(examples), err)
	}
	for _, example := range examples {
		t.Run(filepath.Base(example), func(t *testing.T) {
			p, err := readPlan(helmTemplate(t, example), "plan.yaml")
			if err != nil {
				t.Fatal(err)
			}
			configuration, err := validation.Decode(p.configuration)
			if err != nil {
				t.Fatal(err)
			}
			if configuration.CloudProviders.Enabled {
				configuration.Providers = append(configuration.Providers, ofExample())
			}
			var want, got []string
			for _, r := range Rights("kube-system", configuration, configuration.Providers) {
				switch {
				case r.Group == "authentication.k8s.io" || r.Group == "authorization.k8s.io" || slices.Contains(r.Names, "extension-apiserver-authentication"):
					continue // granted by bindings to Kubernetes' own roles
				case r.Namespace == modulesNamespace && r.Resource == "configmaps":
					continue // any object of that namespace
				}
				want = append(want, flat(r.Account, r.Namespace, r.Group, r.Resource, r.Names, r.Verbs)...)
			}
			for _, object := range p.objects {
				if object.GetKind() == "RoleBinding" || object.GetKind() == "ClusterRoleBinding" {
					got = append(got, given(t, &p, object.Object)...)
				}
			}
			if len(got) < 30 {
				t.Errorf("the chart gives only %d", len(got))
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(slices.Compact(want), slices.Compact(got)); diff != "" {
				t.Errorf("-check +chart:\n%s", diff)
			}
		})
	}
}

// ofExample is the CloudProvider of examples/cloudproviders.yaml, with its
// rights in the values.
func ofExample() v1alpha1.Provider {
	here := func(name string) v1alpha1.Reference {
		return v1alpha1.Reference{Namespace: "kube-system", Name: name}
	}
	module := here("cloud-provider-mycloud")
	return v1alpha1.Provider{
		Name: "mycloud", Store: "mycloud", Source: v1alpha1.Source{ConfigMap: &module},
		ConfigFrom:  &v1alpha1.ConfigFrom{ConfigMap: &v1alpha1.KeyReference{Namespace: "kube-system", Name: "cloud-provider-mycloud-config"}},
		Credentials: []v1alpha1.Credential{{Secret: here("cloud-credentials")}},
	}
}

// given are the rights of a binding, split into single verbs and names.
func given(t *testing.T, p *plan, object map[string]any) (all []string) {
	t.Helper()
	var binding rbacv1.RoleBinding
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &binding); err != nil {
		t.Fatal(err)
	}
	found := p.objects[objectKey(binding.RoleRef.Kind, binding.Namespace, binding.RoleRef.Name)]
	account := binding.Subjects[0].Namespace + "/" + binding.Subjects[0].Name
	if found == nil || strings.HasSuffix(account, "-viewer") {
		return nil
	}
	var role rbacv1.ClusterRole
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, &role); err != nil {
		t.Fatal(err)
	}
	for _, rule := range role.Rules {
		for i := range rule.Resources {
			if binding.Namespace != modulesNamespace || rule.Resources[i] != "configmaps" {
				all = append(all, flat(account, binding.Namespace, rule.APIGroups[0], rule.Resources[i], rule.ResourceNames, rule.Verbs)...)
			}
		}
	}
	return all
}

func flat(account, namespace, group, resource string, names, verbs []string) (all []string) {
	if len(names) == 0 {
		names = []string{"*"}
	}
	for _, name := range names {
		for _, verb := range verbs {
			all = append(all, fmt.Sprintf("%s in %q: %s %s.%s %s", account, namespace, verb, resource, group, name))
		}
	}
	return all
}

func helmTemplate(t *testing.T, example string) []byte {
	t.Helper()
	binary := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "helm")
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("%v: run `make helm`, and set KUBEBUILDER_ASSETS to build/bin", err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "template", "ccm", chart, "--namespace", "kube-system", "-f", example)
	dir := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CONFIG_HOME="+dir, "HELM_CACHE_HOME="+dir, "HELM_DATA_HOME="+dir)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helm template: %v", err)
	}
	return out
}
