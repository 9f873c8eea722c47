package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/grant"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
)

// objects checks the ConfigMaps and Secrets that the providers name.
func (c *checker) objects(ctx context.Context) {
	for i := range c.plan.providers {
		p := &c.plan.providers[i]
		c.section("Objects", "provider "+p.Name, "its module, configuration and Secrets are there, and can be used", func() {
			for _, r := range references(p) {
				c.reference(ctx, p, r)
			}
			c.unseen(p)
		})
	}
}

// unseen reports the parts of a provider that a check cannot read.
func (c *checker) unseen(p *v1alpha1.Provider) {
	switch {
	case p.Source.OCI != nil && c.Status == nil:
		c.unknown("Source", "provider "+p.Name, "not checked: whether the registry has "+p.Source.OCI.Reference+" is known to a manager that runs")
	case p.Source.Directory != "":
		c.unknown("Source", "provider "+p.Name, "not checked: the directory "+p.Source.Directory+" is in the manager's Pod")
	}
}

func (c *checker) reference(ctx context.Context, p *v1alpha1.Provider, r reference) {
	if r.resource == "configmaps" {
		if cm := c.configMap(ctx, p, r); cm != nil {
			c.usable(p, r, "configmap", dataOf(cm), func() error { return c.module(ctx, p, r, cm) })
		}
		return
	}
	if secret := c.secret(ctx, p, r); secret != nil {
		c.usable(p, r, "secret", secret.Data, func() error { return c.values(p, r, secret) })
	}
}

// usable reports mistakes in an existing object.
func (c *checker) usable(p *v1alpha1.Provider, r reference, kind string, data map[string][]byte, check func() error) {
	where := fmt.Sprintf("%s %s/%s", kind, r.Namespace, r.Name)
	if key := keyOf(p, r); key != "" {
		if _, ok := data[key]; !ok {
			c.tell(report.KeyMissing, where, fmt.Sprintf("provider %s: %s needs the key %s", p.Name, r.field, key))
		}
	}
	if err := check(); err != nil {
		c.tell(report.NotUsable, where, fmt.Sprintf("provider %s: %s: %v", p.Name, r.field, err))
	}
}

// keyOf is the key in a configFrom.
func keyOf(p *v1alpha1.Provider, r reference) string {
	switch r.field {
	case "configFrom.configMap":
		return p.ConfigFrom.ConfigMap.Key
	case "configFrom.secret":
		return p.ConfigFrom.Secret.Key
	}
	return ""
}

func dataOf(cm *corev1.ConfigMap) map[string][]byte {
	all := map[string][]byte{}
	for key, value := range cm.Data {
		all[key] = []byte(value)
	}
	for key, value := range cm.BinaryData {
		all[key] = value
	}
	return all
}

// module verifies that a ConfigMap has a module that suits the provider.
func (c *checker) module(ctx context.Context, p *v1alpha1.Provider, r reference, cm *corev1.ConfigMap) error {
	signer := r.field != "source.configMap"
	if signer && (r.field == "configFrom.configMap" || r.field == "kube.configMaps") {
		return nil
	}
	limits := source.Limits{MaxModule: p.Limits.Module.Value(), ModuleSetting: "providers[].limits.module of the HostConfiguration"}
	if signer {
		limits = source.Limits{MaxModule: grant.MaxSignerModule}
	}
	bundle, err := source.Join(cm, func(name string) (*corev1.ConfigMap, error) {
		part, err := c.client.CoreV1().ConfigMaps(cm.Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return part, err
	}, limits)
	if err != nil {
		return err
	}
	if _, _, err := module.Check(bundle.Module, module.Policy{Capabilities: p.Capabilities, Signer: signer}); err != nil {
		return fmt.Errorf("the manager refuses the module: %w", err)
	}
	if accepted := p.Provenance.Digests; !signer && len(accepted) > 0 && !slices.Contains(accepted, provenance.Digest(bundle.Module)) {
		return fmt.Errorf("the module's digest is %s, and provenance.digests does not have it", provenance.Digest(bundle.Module))
	}
	return nil
}

// values verifies that a Secret has the keys for its uses. No value is shown.
func (c *checker) values(p *v1alpha1.Provider, r reference, secret *corev1.Secret) error {
	for i := range p.Credentials {
		configured := &p.Credentials[i]
		if r.field != "credentials["+configured.Name+"].secret" {
			continue
		}
		spec, err := grant.Credential(configured, func(string, *v1alpha1.SignerCredential) (credential.Signer, error) { return nil, nil })
		if err != nil {
			return err
		}
		return credential.CheckSecret(spec, secret.Data)
	}
	return nil
}

func (c *checker) configMap(ctx context.Context, p *v1alpha1.Provider, r reference) *corev1.ConfigMap {
	return referred(ctx, c, p, r, "ConfigMap", c.client.CoreV1().ConfigMaps(r.Namespace).Get)
}

func (c *checker) secret(ctx context.Context, p *v1alpha1.Provider, r reference) *corev1.Secret {
	return referred(ctx, c, p, r, "Secret", c.client.CoreV1().Secrets(r.Namespace).Get)
}

// referred returns an object that a provider names, from the plan or the
// cluster; nil with a finding if it is missing or unreadable.
func referred[T any](ctx context.Context, c *checker, p *v1alpha1.Provider, r reference, kind string, get func(context.Context, string, metav1.GetOptions) (*T, error)) *T {
	planned := new(T)
	if c.planned(kind, r, planned) {
		return planned
	}
	found, err := get(ctx, r.Name, metav1.GetOptions{})
	if !c.there(p, r, strings.ToLower(kind), err) {
		return nil
	}
	return found
}

func (c *checker) planned(kind string, r reference, into any) bool {
	object := c.plan.objects[objectKey(kind, r.Namespace, r.Name)]
	return object != nil && runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into) == nil
}

func (c *checker) there(p *v1alpha1.Provider, r reference, kind string, err error) bool {
	where := fmt.Sprintf("%s %s/%s", kind, r.Namespace, r.Name)
	if apierrors.IsNotFound(err) {
		missing := report.ConfigMapMissing
		if r.resource == "secrets" {
			missing = report.SecretMissing
		}
		c.tell(missing, where, fmt.Sprintf("provider %s names it (%s)", p.Name, r.field))
		return false
	}
	return c.readable(where, err)
}
