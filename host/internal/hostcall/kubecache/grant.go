package kubecache

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
)

// All stands for every namespace in a Grant.
const All = "*"

// Name names an object of a namespace.
type Name struct{ Namespace, Name string }

// Grant says what a provider may read and change. The zero value is nothing.
type Grant struct {
	Nodes bool
	// Services and EndpointSlices are namespaces, or All.
	Services, EndpointSlices []string
	ConfigMaps, Secrets      []Name
	// Annotations and Labels are the keys that may be changed on the op's object: exact, or
	// prefixes that end with *.
	Annotations, Labels []string
}

// targets are the watches that the grant needs. Objects that the manager may watch in the
// whole cluster anyway have one watch.
func (g Grant) targets() (all []target) {
	if g.Nodes {
		all = append(all, target{resource: Nodes})
	}
	if len(g.Services) > 0 {
		all = append(all, target{resource: Services})
	}
	for _, namespace := range g.EndpointSlices {
		if namespace == All {
			all = append(all, target{resource: EndpointSlices})
		} else {
			all = append(all, target{EndpointSlices, namespace, ""})
		}
	}
	for _, n := range g.ConfigMaps {
		all = append(all, target{ConfigMaps, n.Namespace, n.Name})
	}
	for _, n := range g.Secrets {
		all = append(all, target{Secrets, n.Namespace, n.Name})
	}
	return all
}

// covers returns the watch for the request, or advice if it is not granted.
func (g Grant) covers(asked target) (watched target, advice string) {
	switch asked.resource {
	case Nodes:
		if g.Nodes {
			return target{resource: Nodes}, ""
		}
		return target{}, "set providers[].kube.nodes of the HostConfiguration to true"
	case Services:
		if slices.Contains(g.Services, All) || asked.namespace != "" && slices.Contains(g.Services, asked.namespace) {
			return target{resource: Services}, ""
		}
		return target{}, namespaced("services", g.Services, asked.namespace)
	case EndpointSlices:
		if slices.Contains(g.EndpointSlices, All) {
			return target{resource: EndpointSlices}, ""
		}
		if asked.namespace != "" && slices.Contains(g.EndpointSlices, asked.namespace) {
			return target{EndpointSlices, asked.namespace, ""}, ""
		}
		return target{}, namespaced("endpointSlices", g.EndpointSlices, asked.namespace)
	case ConfigMaps:
		return named(asked, g.ConfigMaps, "configMaps")
	}
	return named(asked, g.Secrets, "secrets")
}

func namespaced(field string, granted []string, asked string) string {
	if asked == "" {
		asked = All
	}
	advice := fmt.Sprintf("add %q to providers[].kube.%s of the HostConfiguration", asked, field)
	if asked == All && len(granted) > 0 {
		advice += fmt.Sprintf("; or have the provider ask for each of the namespaces %q", granted)
	}
	return advice
}

func named(asked target, granted []Name, field string) (target, string) {
	if slices.Contains(granted, Name{asked.namespace, asked.name}) {
		return asked, ""
	}
	if asked.namespace == "" || asked.name == "" {
		return target{}, "these are read one by one: have the provider ask with a namespace and a name"
	}
	if len(validation.IsDNS1123Label(asked.namespace)) > 0 || len(validation.IsDNS1123Subdomain(asked.name)) > 0 {
		return target{}, "no object can have this name" // which must not become a field of the advice
	}
	return target{}, fmt.Sprintf("add {namespace: %s, name: %s} to providers[].kube.%s of the HostConfiguration", asked.namespace, asked.name, field)
}
