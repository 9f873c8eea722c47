package validation

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/kubecache"
)

// maxKube bounds each list of a Kube.
const maxKube = 64

// allNamespaces means every namespace.
const allNamespaces = "*"

func validateKube(p *v1alpha1.Provider, path *field.Path) (errs field.ErrorList) {
	k := &p.Kube
	if k.Granted() && !slices.Contains(p.Capabilities, abi.CapabilityKube) {
		errs = append(errs, field.Invalid(path, "...", "capabilities do not have kube: add it, or remove this"))
	}
	errs = append(errs, namespaces(path.Child("services"), k.Services)...)
	errs = append(errs, namespaces(path.Child("endpointSlices"), k.EndpointSlices)...)
	errs = append(errs, references(path.Child("configMaps"), k.ConfigMaps)...)
	errs = append(errs, references(path.Child("secrets"), k.Secrets)...)
	errs = append(errs, keys(path.Child("annotations"), k.Annotations)...)
	return append(errs, keys(path.Child("labels"), k.Labels)...)
}

func keys(path *field.Path, all []string) (errs field.ErrorList) {
	if len(all) > maxKube {
		return field.ErrorList{field.TooMany(path, len(all), maxKube)}
	}
	for i, key := range all {
		errs = append(errs, checked(path.Index(i), key, kubecache.CheckKey)...)
		if slices.Contains(all[:i], key) {
			errs = append(errs, field.Duplicate(path.Index(i), key))
		}
	}
	return errs
}

func namespaces(path *field.Path, names []string) (errs field.ErrorList) {
	if len(names) > maxKube {
		return field.ErrorList{field.TooMany(path, len(names), maxKube)}
	}
	for i, name := range names {
		switch {
		case name == allNamespaces && len(names) > 1:
			errs = append(errs, field.Invalid(path.Index(i), name, "it is all namespaces: remove the others"))
		case name == allNamespaces:
		case slices.Contains(names[:i], name):
			errs = append(errs, field.Duplicate(path.Index(i), name))
		default:
			errs = append(errs, label(path.Index(i), name)...)
		}
	}
	return errs
}

func references(path *field.Path, all []v1alpha1.Reference) (errs field.ErrorList) {
	if len(all) > maxKube {
		return field.ErrorList{field.TooMany(path, len(all), maxKube)}
	}
	for i, r := range all {
		errs = append(errs, reference(path.Index(i), r)...)
		if slices.Contains(all[:i], r) {
			errs = append(errs, field.Duplicate(path.Index(i), r.Namespace+"/"+r.Name))
		}
	}
	return errs
}

// validateReadSecrets refuses a read grant of a Secret that the host uses, for
// requests or pulls, for any provider.
func validateReadSecrets(providers []v1alpha1.Provider, placeOf func(i int) *field.Path) (errs field.ErrorList) {
	kept := map[v1alpha1.Reference]string{}
	for i := range providers {
		for _, r := range hostSecrets(&providers[i]) {
			kept[r] = placeOf(i).String()
		}
	}
	for i := range providers {
		path := placeOf(i).Child("kube", "secrets")
		for j, r := range providers[i].Kube.Secrets[:min(maxKube, len(providers[i].Kube.Secrets))] {
			// Invariant S13 (host/SECURITY.md): a Secret of the host's is readable to no provider.
			if whose := kept[r]; whose != "" {
				errs = append(errs, field.Invalid(path.Index(j), r.Namespace+"/"+r.Name, "the host uses it for "+whose+", and shows it to no provider: name another Secret"))
			}
		}
	}
	return errs
}

// hostSecrets are the Secrets that the host uses for a provider without giving
// them to it.
func hostSecrets(p *v1alpha1.Provider) (all []v1alpha1.Reference) {
	for i := range p.Credentials {
		c := &p.Credentials[i]
		all = append(all, c.Secret)
		if c.Signer != nil {
			all = append(all, pullSecret(&c.Signer.Source)...)
		}
	}
	for i := range p.Grants {
		if r := p.Grants[i].ClientCertificate; r != nil {
			all = append(all, *r)
		}
	}
	return append(all, pullSecret(&p.Source)...)
}

func pullSecret(s *v1alpha1.Source) []v1alpha1.Reference {
	if s.OCI == nil || s.OCI.PullSecret == nil {
		return nil
	}
	return []v1alpha1.Reference{*s.OCI.PullSecret}
}
