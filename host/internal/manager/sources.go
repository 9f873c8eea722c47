package manager

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/registry"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
	statusv1alpha1 "github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

func configKey(from *v1alpha1.ConfigFrom) source.ConfigKey {
	key, secret := from.ConfigMap, false
	if key == nil {
		key, secret = from.Secret, true
	}
	return source.ConfigKey{Object: types.NamespacedName{Namespace: key.Namespace, Name: key.Name}, Key: key.Key, Secret: secret}
}

// images are the settings of a registry's images; see source.OCIOptions.
type images struct {
	reached func(error)
	policy  func() *provenance.Policy
	renewed <-chan struct{}
	pulls   source.Pulls
}

func newSource(client kubernetes.Interface, s v1alpha1.Source, limits source.Limits, i images) (source.Source, error) {
	switch {
	case s.ConfigMap != nil:
		return source.NewConfigMap(client, types.NamespacedName(*s.ConfigMap), limits), nil
	case s.OCI != nil:
		return newOCI(client, s.OCI, limits, i)
	}
	return source.NewDir(s.Directory, limits, source.Watching{}), nil
}

// sourceOf names a source to people.
func sourceOf(s v1alpha1.Source) *statusv1alpha1.Object {
	switch {
	case s.ConfigMap != nil:
		return &statusv1alpha1.Object{Kind: statusv1alpha1.KindConfigMap, Namespace: s.ConfigMap.Namespace, Name: s.ConfigMap.Name}
	case s.OCI != nil:
		return &statusv1alpha1.Object{Kind: statusv1alpha1.KindImage, Name: s.OCI.Reference}
	}
	return &statusv1alpha1.Object{Kind: statusv1alpha1.KindDirectory, Name: text.Line(s.Directory, statusv1alpha1.MaxText)}
}

func newOCI(client kubernetes.Interface, o *v1alpha1.OCISource, limits source.Limits, i images) (source.Source, error) {
	ref, err := registry.ParseReference(o.Reference)
	if err != nil {
		return nil, err
	}
	options := source.OCIOptions{
		Reference: ref, Once: o.PullPolicy == v1alpha1.PullIfNotPresent, Interval: o.Interval.Duration, CABundle: o.CABundle,
		UserAgent: "wasm-ccm/" + version.Release(), Limits: limits,
		Reached: i.reached, Policy: i.policy, Renewed: i.renewed, Pulls: i.pulls,
	}
	if o.PullSecret != nil {
		options.PullSecret = source.NewPullSecret(client, types.NamespacedName(*o.PullSecret))
	}
	return source.NewOCI(options), nil
}
