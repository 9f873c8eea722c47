package validation

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
)

// ValidateAmong returns every mistake of a defaulted CloudProvider, and its
// conflicts with the others, which have no mistakes by themselves. Its own
// paths begin with spec.
func ValidateAmong(p *v1alpha1.Provider, others []v1alpha1.Provider) field.ErrorList {
	all := append(append([]v1alpha1.Provider(nil), others...), *p)
	path := field.NewPath("providers")
	return validateProviders(all, path, func(i int) *field.Path {
		if i == len(others) {
			return field.NewPath("spec")
		}
		return path.Key(all[i].Name)
	})
}

// validateProviders checks each provider, and that no two of them make the same
// claim.
func validateProviders(providers []v1alpha1.Provider, path *field.Path, placeOf func(i int) *field.Path) (errs field.ErrorList) {
	if len(providers) > v1alpha1.MaxProviders {
		return field.ErrorList{field.TooMany(path, len(providers), v1alpha1.MaxProviders)}
	}
	names, stores := claims{}, claims{}
	nodes, drivers, volumes := claims{}, claims{}, claims{}
	services, classes := claims{}, claims{}
	for i := range providers {
		p, at := &providers[i], placeOf(i)
		errs = append(errs, validateProvider(p, at)...)
		errs = append(errs, names.add(at.Child("name"), p.Name)...)
		errs = append(errs, validateStore(p, len(providers), stores, at.Child("store"))...)
		routing := at.Child("routing")
		errs = append(errs, nodes.addAll(routing.Child("nodes", "schemes"), p.NodeSchemes())...)
		errs = append(errs, drivers.addAll(routing.Child("volumes", "drivers"), p.Routing.Volumes.Drivers)...)
		errs = append(errs, volumes.addAll(routing.Child("volumes", "schemes"), p.VolumeSchemes())...)
		errs = append(errs, classes.addAll(routing.Child("services", "classes"), p.Routing.Services.Classes)...)
		if p.Routing.Services.Default {
			errs = append(errs, services.add(routing.Child("services", "default"), "true")...)
		}
	}
	return append(errs, validateReadSecrets(providers, placeOf)...)
}

// claims maps unique values to the paths of their fields.
type claims map[string]*field.Path

func (c claims) add(path *field.Path, value string) field.ErrorList {
	if first, ok := c[value]; ok {
		err := field.Duplicate(path, value)
		err.Detail = "it is that of " + first.String()
		return field.ErrorList{err}
	}
	c[value] = path
	return nil
}

func (c claims) addAll(path *field.Path, values []string) (errs field.ErrorList) {
	for i, value := range values {
		if i >= maxRoutes { // validateList reports it
			break
		}
		errs = append(errs, c.add(path.Index(i), value)...)
	}
	return errs
}

// validateStore requires a store name in the configuration of each of several
// providers: a module that names its own could take another one's.
func validateStore(p *v1alpha1.Provider, providers int, stores claims, path *field.Path) field.ErrorList {
	switch {
	case p.Store != "":
		return stores.add(path, p.Store)
	// Invariant P4 (host/SECURITY.md): with several providers each store has a unique name here.
	case providers > 1:
		return field.ErrorList{field.Required(path, "each of several providers needs its own: otherwise its module could choose the state of another provider")}
	}
	return nil
}

func validateRouting(r v1alpha1.Routing, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, validateList(path.Child("nodes", "schemes"), r.Nodes.Schemes, scheme)...)
	errs = append(errs, validateList(path.Child("volumes", "schemes"), r.Volumes.Schemes, scheme)...)
	errs = append(errs, validateList(path.Child("volumes", "drivers"), r.Volumes.Drivers, driver)...)
	classes := path.Child("services", "classes")
	if n := len(r.Services.Classes); n > maxClasses {
		return append(errs, field.TooMany(classes, n, maxClasses))
	}
	return append(errs, validateList(classes, r.Services.Classes, class)...)
}

func validateList(path *field.Path, values []string, check func(*field.Path, string) field.ErrorList) (errs field.ErrorList) {
	if len(values) > maxRoutes {
		return field.ErrorList{field.TooMany(path, len(values), maxRoutes)}
	}
	for i, value := range values {
		errs = append(errs, check(path.Index(i), value)...)
	}
	return errs
}

// scheme checks the syntax of RFC 3986, in lower case as in every cloud's IDs.
func scheme(path *field.Path, value string) field.ErrorList {
	const lower, others = "abcdefghijklmnopqrstuvwxyz", "0123456789+.-"
	if value != "" && len(value) <= maxScheme && strings.IndexByte(lower, value[0]) >= 0 && strings.Trim(value, lower+others) == "" {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, "must be what stands before ://, e.g. openstack: a lower-case letter, then lower-case letters, digits, + . -, at most 63 characters")}
}

// driver applies the API server's rule for CSIDriver objects.
func driver(path *field.Path, value string) (errs field.ErrorList) {
	if len(value) > validation.DNS1123LabelMaxLength {
		return field.ErrorList{field.TooLong(path, "", validation.DNS1123LabelMaxLength)}
	}
	for _, message := range validation.IsDNS1123Subdomain(strings.ToLower(value)) {
		errs = append(errs, field.Invalid(path, value, message))
	}
	return errs
}

// class applies the API server's rule for the loadBalancerClass of a Service.
func class(path *field.Path, value string) (errs field.ErrorList) {
	for _, message := range validation.IsQualifiedName(value) {
		errs = append(errs, field.Invalid(path, value, message))
	}
	return errs
}
