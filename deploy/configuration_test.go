package deploy_test

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
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
	"github.com/wasm-ccm/wasm-ccm/host/test/hostconfig"
)

// testConfiguration checks that the HostConfiguration is one, and that the roles
// beside it name the objects of its providers and no others.
func testConfiguration(t *testing.T, example string) {
	t.Helper()
	var want []string
	_, providers := providersOf(t, example)
	for i := range providers {
		want = append(want, objectsOf(&providers[i])...)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, namedInRoles(t, render(t, with(example)...))); diff != "" {
		t.Errorf("what the roles name (-of the HostConfiguration +of the roles):\n%s", diff)
	}
}

// providersOf are those of the HostConfiguration that the chart makes, and those
// that are objects.
func providersOf(t *testing.T, example string) (*v1alpha1.HostConfiguration, []v1alpha1.Provider) {
	t.Helper()
	configuration, err := hostconfig.Decode(hostConfiguration(t, render(t, with(example)...)))
	if err != nil {
		t.Fatal(err)
	}
	if !configuration.CloudProviders.Enabled {
		return configuration, configuration.Providers
	}
	here := func(name string) v1alpha1.Reference { return v1alpha1.Reference{Namespace: namespace, Name: name} }
	module := here("cloud-provider-mycloud")
	return configuration, append(slices.Clone(configuration.Providers), v1alpha1.Provider{ // of the example
		Name: "mycloud", Store: "mycloud", Source: v1alpha1.Source{ConfigMap: &module},
		ConfigFrom:  &v1alpha1.ConfigFrom{ConfigMap: &v1alpha1.KeyReference{Namespace: namespace, Name: "cloud-provider-mycloud-config"}},
		Credentials: []v1alpha1.Credential{{Secret: here("cloud-credentials")}},
	})
}

// objectsOf are the objects that the manager needs for a provider. A namespace
// for modules need not name them.
func objectsOf(p *v1alpha1.Provider) []string {
	names := []string{"configmaps wasm-ccm-store-" + p.Store}
	for _, name := range rolloutNames(p.Name) {
		names = append(names, "configmaps "+name)
	}
	for _, r := range referencesOf(reflect.ValueOf(p).Elem(), "") {
		if r.resource != "configmaps" || r.Namespace != modulesNamespace {
			names = append(names, r.resource+" "+r.Name)
		}
	}
	return names
}

// reference is an object that a field of the configuration names.
type reference struct {
	v1alpha1.Reference
	resource string
}

// referencesOf are those in a value, whatever its type is: a new field cannot be
// forgotten.
func referencesOf(v reflect.Value, resource string) (found []reference) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return referencesOf(v.Elem(), resource)
		}
	case reflect.Slice:
		for i := range v.Len() {
			found = append(found, referencesOf(v.Index(i), resource)...)
		}
	case reflect.Struct:
		switch r := v.Interface().(type) {
		case v1alpha1.Reference:
			return []reference{{r, resource}}
		case v1alpha1.KeyReference:
			return []reference{{v1alpha1.Reference{Namespace: r.Namespace, Name: r.Name}, resource}}
		}
		for i := range v.NumField() {
			if !v.Type().Field(i).IsExported() {
				continue
			}
			resource := "secrets"
			if strings.HasPrefix(v.Type().Field(i).Name, "ConfigMap") {
				resource = "configmaps"
			}
			found = append(found, referencesOf(v.Field(i), resource)...)
		}
	}
	return found
}

// Every field that names an object is in the roles: providers that have all of
// them are rendered.
func TestRolesHaveEveryReference(t *testing.T) {
	depend(t)
	var want []string
	var providers []v1alpha1.Provider
	n := 0
	for form := range 2 {
		var p v1alpha1.Provider
		fill(reflect.ValueOf(&p).Elem(), &n, form)
		p.Name = fmt.Sprintf("full-%d", form)
		p.Store = p.Name + "-store"
		for i := range p.Grants {
			p.Grants[i].Host = "api.example.com"
		}
		providers, want = append(providers, p), append(want, objectsOf(&p)...)
	}
	slices.Sort(want)
	values, err := yaml.Marshal(map[string]any{"providers": providers})
	if err != nil {
		t.Fatal(err)
	}
	if n < 8 {
		t.Errorf("only %d references", n)
	}
	if diff := cmp.Diff(want, namedInRoles(t, render(t, valuesFile(t, string(values)), roomForLargeModules))); diff != "" {
		t.Errorf("what the roles name (-of the providers +of the roles):\n%s", diff)
	}
}

// fill sets every reference below a value to another object. Of a source and of
// a configFrom, which have one of several forms, it sets that one.
func fill(v reflect.Value, n *int, form int) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n, form)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), n, form)
		}
	case reflect.Struct:
		where, name := fmt.Sprintf("namespace-%d", *n%3), fmt.Sprintf("object-%d", *n)
		switch x := v.Addr().Interface().(type) {
		case *v1alpha1.Reference:
			*x = v1alpha1.Reference{Namespace: where, Name: name}
			*n++
			return
		case *v1alpha1.KeyReference:
			*x = v1alpha1.KeyReference{Namespace: where, Name: name}
			*n++
			return
		case *v1alpha1.OCISource:
			x.Reference = "registry.example.com/providers/p:v1"
		case *v1alpha1.Source, *v1alpha1.ConfigFrom:
			fill(pointers(v)[form], n, form)
			return
		}
		for i := range v.NumField() {
			if strings.HasPrefix(v.Type().PkgPath(), "github.com/wasm-ccm/") {
				fill(v.Field(i), n, form)
			}
		}
	}
}

// pointers are the fields of a struct that are some.
func pointers(v reflect.Value) (all []reflect.Value) {
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Pointer {
			all = append(all, v.Field(i))
		}
	}
	return all
}

// rolloutNames are the ConfigMaps of a provider's rollouts.
func rolloutNames(provider string) []string {
	names := []string{"wasm-ccm-provider-" + provider}
	for _, set := range "abc" {
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
			roles[role.Namespace+"/"+role.Name] = role
		}
		if yaml.Unmarshal(document, &binding) == nil && binding.Kind == "RoleBinding" && binding.RoleRef.Kind == "Role" {
			subject := binding.Subjects[0]
			bound[binding.Namespace+"/"+binding.RoleRef.Name] = subject.Name == manager && subject.Namespace == namespace
		}
	}
	var names []string
	for name, role := range roles {
		if strings.HasSuffix(name, ":ccmctl") {
			continue // for people
		}
		if !bound[name] {
			t.Errorf("the role %s is not bound to the manager", name)
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

// testOwner uses what service-controller's account may do where there are several
// providers: it reads a Service and sets the label of its owner, through the
// Service's status. Kubernetes' own bootstrap roles let that account read
// Services, too, where they were not removed.
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
