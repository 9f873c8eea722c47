package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	config "github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
)

// cloudProvider is what a bundle has of a CloudProvider: no annotations.
type cloudProvider struct {
	Name       string                     `json:"name"`
	Generation int64                      `json:"generation"`
	Created    metav1.Time                `json:"created"`
	Deleted    *metav1.Time               `json:"deleted,omitempty"`
	Spec       *config.Provider           `json:"spec,omitempty"`
	Mistaken   bool                       `json:"mistaken,omitempty"`
	Status     config.CloudProviderStatus `json:"status"`
}

// configuration reads the configuration of the manager and the CloudProviders, and then
// the Secrets that they name.
func (c *bundleCluster) configuration(ctx context.Context) error {
	file, err := c.file(ctx)
	if err != nil {
		c.miss("configuration.json", err)
	}
	objects, err := c.cloudProviders(ctx)
	if err != nil {
		c.miss("cloudproviders.json", err)
	}
	if file != nil {
		for i := range file.Providers {
			c.know(ctx, &file.Providers[i])
		}
	}
	for i := range objects {
		if objects[i].Spec != nil {
			c.know(ctx, objects[i].Spec)
		}
	}
	if file != nil {
		c.object("configuration.json", "the HostConfiguration with its defaults", file)
	}
	if objects != nil {
		c.object("cloudproviders.json", "the CloudProviders, with their defaults", objects)
	}
	return nil
}

// file is the HostConfiguration as the chart writes it. The error of a mistake would
// quote it.
func (c *bundleCluster) file(ctx context.Context) (*config.HostConfiguration, error) {
	cm, err := c.client.CoreV1().ConfigMaps(c.namespace).Get(ctx, managerName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	out, err := config.Decode([]byte(cm.Data["config.yaml"]))
	if err != nil {
		return nil, fmt.Errorf("config.yaml in the ConfigMap %s/%s has a mistake; the Event HostConfigurationRejected says which", c.namespace, managerName)
	}
	return out, nil
}

func (c *bundleCluster) cloudProviders(ctx context.Context) ([]cloudProvider, error) {
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return nil, err
	}
	list, err := client.Resource(config.CloudProviderResource()).List(ctx, metav1.ListOptions{Limit: maxListed})
	if apierrors.IsNotFound(err) {
		return nil, errors.New("the cluster has no such kind")
	}
	if err != nil {
		return nil, err
	}
	c.cut("cloudproviders.json", "CloudProviders", list.GetContinue())
	all := []cloudProvider{}
	for i := range list.Items {
		all = append(all, cloudProviderOf(&list.Items[i]))
	}
	return all, nil
}

func cloudProviderOf(o *unstructured.Unstructured) cloudProvider {
	out := cloudProvider{Name: o.GetName(), Generation: o.GetGeneration(), Created: o.GetCreationTimestamp(), Deleted: o.GetDeletionTimestamp()}
	spec, _, _ := unstructured.NestedMap(o.Object, "spec") // one that is none is mistaken
	var err error
	if out.Spec, err = config.DecodeSpec(o.GetName(), spec); err != nil {
		out.Spec, out.Mistaken = nil, true // the status says the mistake
	}
	status, _, _ := unstructured.NestedMap(o.Object, "status")
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(status, &out.Status) // what cannot be read is not in it
	return out
}

// know reads the Secrets of a provider, so that their values are found elsewhere, and
// takes out of it what may be secret itself.
func (c *bundleCluster) know(ctx context.Context, p *config.Provider) {
	for _, reference := range secretsOf(p) {
		secret, err := c.client.CoreV1().Secrets(reference.Namespace).Get(ctx, reference.Name, metav1.GetOptions{})
		if err != nil {
			c.miss("the values of a Secret, which are not looked for in the other files", err)
			continue
		}
		c.secrets++
		for _, key := range sortedKeys(secret) {
			c.redactor.know(secret.Data[key])
		}
	}
	withoutTexts(p)
}

func sortedKeys(secret *corev1.Secret) (keys []string) {
	for key := range secret.Data {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// secretsOf are the Secrets that a provider may use.
func secretsOf(p *config.Provider) (all []config.Reference) {
	add := func(r *config.Reference) {
		if r != nil && !slices.Contains(all, *r) {
			all = append(all, *r)
		}
	}
	ofSource := func(s *config.Source) {
		if s.OCI != nil {
			add(s.OCI.PullSecret)
		}
	}
	ofSource(&p.Source)
	if p.ConfigFrom != nil && p.ConfigFrom.Secret != nil {
		add(&config.Reference{Namespace: p.ConfigFrom.Secret.Namespace, Name: p.ConfigFrom.Secret.Name})
	}
	for i := range p.Grants {
		add(p.Grants[i].ClientCertificate)
	}
	for i := range p.Credentials {
		add(&p.Credentials[i].Secret)
		if s := p.Credentials[i].Signer; s != nil {
			ofSource(&s.Source)
		}
	}
	for i := range p.Kube.Secrets {
		add(&p.Kube.Secrets[i])
	}
	return all
}

// withoutTexts takes out free texts, which somebody may have put a secret into.
func withoutTexts(p *config.Provider) {
	ofSource(&p.Source)
	for i := range p.Grants {
		leaveOut(&p.Grants[i].CABundle)
	}
	for i := range p.Credentials {
		c := &p.Credentials[i]
		if c.Header != nil {
			leaveOut(&c.Header.Prefix)
		}
		if c.OAuth2ClientCredentials != nil {
			leaveOut(&c.OAuth2ClientCredentials.Token.CABundle)
		}
		if c.Signer != nil {
			ofSource(&c.Signer.Source)
			leaveOut(&c.Signer.Config)
			for n := range c.Signer.Tokens {
				leaveOut(&c.Signer.Tokens[n].CABundle)
			}
		}
		if c.BodyTemplate != nil {
			leaveOut(&c.BodyTemplate.Body)
			for name, value := range c.BodyTemplate.Headers {
				leaveOut(&value)
				c.BodyTemplate.Headers[name] = value
			}
		}
	}
}

func ofSource(s *config.Source) {
	if s.OCI != nil {
		leaveOut(&s.OCI.CABundle)
	}
}

func leaveOut(s *string) {
	if *s != "" {
		*s = fmt.Sprintf("[left out: %d bytes]", len(*s))
	}
}
