package check

import (
	"fmt"
	"reflect"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// controllersNamespace is the namespace of the accounts of upstream's controllers.
const controllersNamespace = "kube-system"

// The accounts of upstream's controllers.
var controllers = []string{"node-controller", "service-controller", "route-controller", "persistentvolume-label-controller"}

// Right is a right that an account needs.
type Right struct {
	// Account is NAMESPACE/NAME of a ServiceAccount.
	Account string
	// Namespace is "" for the whole cluster.
	Namespace string
	// Rule has one resource, perhaps with a subresource such as nodes/status,
	// and at most one name.
	text.Rule
}

// name of the object, "" for any.
func (r Right) name() string {
	if len(r.Names) == 0 {
		return ""
	}
	return r.Names[0]
}

// Rights are all rights that a manager in a namespace needs for these
// providers: a copy of the chart's Roles, which a test compares with them.
func Rights(namespace string, configuration *v1alpha1.HostConfiguration, providers []v1alpha1.Provider) []Right {
	account := namespace + "/" + managerName
	rights := managerRights(account, namespace)
	rights = append(rights, controllerRights()...)
	if configuration.CloudProviders.Enabled {
		rights = append(rights, everywhere(account, v1alpha1.CloudProviderResource().Group, "cloudproviders", "list", "watch"),
			everywhere(account, v1alpha1.CloudProviderResource().Group, "cloudproviders/status", "patch"))
	}
	for i := range providers {
		rights = append(rights, providerRights(account, namespace, &providers[i])...)
	}
	if several(configuration, providers) {
		rights = append(rights, everywhere(controllersNamespace+"/service-controller", "", "services", "get"))
	}
	return rights
}

// several reports whether Services are labelled with their provider.
func several(configuration *v1alpha1.HostConfiguration, providers []v1alpha1.Provider) bool {
	return len(providers) > 1 || configuration.CloudProviders.Enabled || len(providers) == 1 && routed(providers[0].Routing)
}

func routed(r v1alpha1.Routing) bool { return !reflect.ValueOf(r).IsZero() }

func everywhere(account, group, resource string, verbs ...string) Right {
	return Right{Account: account, Rule: text.Rule{Group: group, Resource: resource, Verbs: verbs}}
}

func within(account, namespace, group, resource, name string, verbs ...string) Right {
	right := Right{Account: account, Namespace: namespace, Rule: text.Rule{Group: group, Resource: resource, Verbs: verbs}}
	if name != "" {
		right.Names = []string{name}
	}
	return right
}

func managerRights(account, namespace string) []Right {
	const leases = "coordination.k8s.io"
	rights := []Right{
		everywhere(account, "", "nodes", "list", "watch"), everywhere(account, "", "services", "list", "watch"), everywhere(account, "", "persistentvolumes", "list", "watch"),
		everywhere(account, "", "events", "create", "patch", "update"),
		everywhere(account, "networking.k8s.io", "servicecidrs", "list"),
		everywhere(account, leases, "leases", "list"),
		within(account, "", "", "namespaces", namespace, "get"),
		everywhere(account, "authentication.k8s.io", "tokenreviews", "create"),
		everywhere(account, "authorization.k8s.io", "subjectaccessreviews", "create"),
		within(account, controllersNamespace, "", "configmaps", "extension-apiserver-authentication", "get", "list", "watch"),
		within(account, namespace, leases, "leases", "", "create"),
		within(account, namespace, "", "configmaps", "", "create"),
		within(account, namespace, "", "pods", "", "get"),
		within(account, namespace, leases, "leases", managerName, "get", "update"),
		within(account, namespace, leases, "leases", "cloud-provider-extraction-migration", "get", "update"),
	}
	for _, controller := range controllers {
		rights = append(rights, within(account, controllersNamespace, "", "serviceaccounts", controller, "get"),
			within(account, controllersNamespace, "", "serviceaccounts/token", controller, "create"))
	}
	return rights
}

func controllerRights() (rights []Right) {
	of := func(name string) string { return controllersNamespace + "/" + name }
	for _, controller := range controllers {
		rights = append(rights, everywhere(of(controller), "", "events", "create", "patch", "update"))
	}
	return append(rights,
		everywhere(of("node-controller"), "", "nodes", "get", "update", "patch", "delete"),
		everywhere(of("node-controller"), "", "nodes/status", "patch"),
		everywhere(of("service-controller"), "", "services/status", "patch"),
		everywhere(of("route-controller"), "", "nodes/status", "patch"),
		everywhere(of("persistentvolume-label-controller"), "", "persistentvolumes", "list", "watch", "patch"),
	)
}

func providerRights(account, namespace string, p *v1alpha1.Provider) (rights []Right) {
	for _, r := range references(p) {
		rights = append(rights, within(account, r.Namespace, "", r.resource, r.Name, "list", "watch"))
	}
	for _, where := range p.Kube.EndpointSlices {
		if where == "*" {
			where = ""
		}
		rights = append(rights, within(account, where, "discovery.k8s.io", "endpointslices", "", "list", "watch"))
	}
	store := p.Store
	if store == "" {
		store = p.Name
	}
	rights = append(rights, within(account, namespace, "", "configmaps", "wasm-ccm-store-"+store, "get", "update"))
	for _, name := range rolloutNames(p.Name) {
		rights = append(rights, within(account, namespace, "", "configmaps", name, "get", "list", "watch", "update", "patch"))
	}
	return rights
}

// rolloutNames are the ConfigMaps of a provider's rollouts.
func rolloutNames(provider string) []string {
	const sets, parts = "abc", 4
	names := []string{"wasm-ccm-provider-" + provider}
	for _, set := range sets {
		for part := range parts {
			names = append(names, fmt.Sprintf("wasm-ccm-module-%s-%c%d", provider, set, part))
		}
	}
	return names
}
