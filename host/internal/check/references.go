package check

import (
	"slices"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
)

// reference is a provider's reference to an object.
type reference struct {
	v1alpha1.Reference
	resource string
	// field is its path in the provider.
	field string
}

// references are all references of a provider, one for each use.
func references(p *v1alpha1.Provider) (all []reference) {
	add := func(resource, field string, r *v1alpha1.Reference) {
		if r != nil {
			all = append(all, reference{*r, resource, field})
		}
	}
	source := func(field string, s *v1alpha1.Source) {
		add("configmaps", field+".configMap", s.ConfigMap)
		if s.OCI != nil {
			add("secrets", field+".oci.pullSecret", s.OCI.PullSecret)
		}
	}
	source("source", &p.Source)
	if f := p.ConfigFrom; f != nil {
		add("configmaps", "configFrom.configMap", object(f.ConfigMap))
		add("secrets", "configFrom.secret", object(f.Secret))
	}
	for i := range p.Credentials {
		credential := &p.Credentials[i]
		add("secrets", "credentials["+credential.Name+"].secret", &credential.Secret)
		if credential.Signer != nil {
			source("credentials["+credential.Name+"].signer.source", &credential.Signer.Source)
		}
	}
	for i := range p.Grants {
		add("secrets", "grants["+p.Grants[i].Host+"].clientCertificate", p.Grants[i].ClientCertificate)
	}
	for i := range p.Kube.ConfigMaps {
		add("configmaps", "kube.configMaps", &p.Kube.ConfigMaps[i])
	}
	for i := range p.Kube.Secrets {
		add("secrets", "kube.secrets", &p.Kube.Secrets[i])
	}
	return all
}

// Secrets are the Secrets that a provider references.
func Secrets(p *v1alpha1.Provider) (all []v1alpha1.Reference) {
	for _, r := range references(p) {
		if r.resource == "secrets" && !slices.Contains(all, r.Reference) {
			all = append(all, r.Reference)
		}
	}
	return all
}

func object(r *v1alpha1.KeyReference) *v1alpha1.Reference {
	if r == nil {
		return nil
	}
	return &v1alpha1.Reference{Namespace: r.Namespace, Name: r.Name}
}
