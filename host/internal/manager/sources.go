package manager

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/registry"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
)

func (s *shared) newSource(m *managed, p *v1alpha1.Provider) (source.Source, error) {
	limits := source.Limits{MaxModule: p.Limits.Module.Value(), ModuleSetting: "providers[].limits.module of the HostConfiguration", Store: s.modules.store}
	src, err := newSource(m.client, p.Source, limits, images{reached: m.reporter.reached, policy: m.loader.policy, renewed: m.trust, pulls: m.book.Pulls()})
	if err != nil {
		return nil, err
	}
	if file := s.configFile(); file != "" {
		src = source.WithConfigFile(src, file, limits, source.Watching{})
	}
	if p.ConfigFrom != nil {
		src = source.WithConfigFrom(src, m.client, configKey(p.ConfigFrom), limits)
	}
	return src, nil
}

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

// Reasons of Events about registries.
const (
	eventSourceUnavailable = "ProviderSourceUnavailable"
	eventSourceAvailable   = "ProviderSourceAvailable"
)

// reached reports that the registry cannot be reached, or can be again. The
// serving module does not change.
func (r *providerReporter) reached(err error) {
	if err == nil {
		r.metrics.SourceUnavailable("")
		if r.status.source("", "") {
			r.logger.Info("The registry answers again")
			r.event(source.Bundle{}, corev1.EventTypeNormal, eventSourceAvailable, "the registry answers again")
		}
		return
	}
	reason := registry.ReasonUnavailable
	var known *registry.Error
	if errors.As(err, &known) {
		reason = known.Reason
	}
	message := r.clean(err.Error())
	r.status.source(reason, message)
	r.metrics.SourceUnavailable(reason)
	r.unreached(reason, message)
}

// sourceReplaced drops the state of a registry: the next source reports its
// own.
func (r *providerReporter) sourceReplaced() {
	r.status.sourceReplaced()
	r.metrics.SourceUnavailable("")
}

// unreached reports a source that cannot be reached.
func (t *teller) unreached(reason, message string) {
	t.logger.Error(errors.New(message), "The source cannot be read; its last module stays, and it is tried again", "reason", reason)
	t.event(source.Bundle{}, corev1.EventTypeWarning, eventSourceUnavailable, reason+": "+message+"; the serving module continues, and the source is tried again")
}

// sourceFailed reports the source of a credential's signer.
func (t *teller) sourceFailed(name string, err error) {
	t.unreached("Signer", "the signer of the credential "+name+": "+t.clean(err.Error()))
}
