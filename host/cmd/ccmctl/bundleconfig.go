package main

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	config "github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/check"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
)

// configuration reads the configuration of the manager and the CloudProviders,
// and for free texts also the Secrets and the texts that they name.
func (c *bundleCluster) configuration(ctx context.Context) error {
	var all []config.Provider
	file, err := c.file(ctx)
	if err == nil {
		all = file.Providers
		err = c.show("configuration.json", file)
	}
	c.missed("configuration.json", err)
	specs, err := c.cloudProviders(ctx)
	c.missed("cloudproviders.json", err)
	all = append(all, specs...)
	if c.asked.any() {
		for i := range all {
			c.know(ctx, &all[i])
		}
	}
	c.free(c.asked.configurations, "hostconfiguration.txt", "config.yaml, as it is written", c.written)
	if c.asked.configurations {
		for i := range all {
			c.configurationText(ctx, &all[i])
		}
	}
	return nil
}

// file is the HostConfiguration as the chart writes it. Its errors would quote
// it.
func (c *bundleCluster) file(ctx context.Context) (*config.HostConfiguration, error) {
	cm, err := c.client.CoreV1().ConfigMaps(c.namespace).Get(ctx, managerName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	c.written = []byte(cm.Data["config.yaml"])
	out, err := validation.Decode(c.written)
	if err != nil {
		return nil, own("config.yaml in the ConfigMap %s/%s has a mistake; the Event HostConfigurationRejected says which", c.namespace, managerName)
	}
	return out, nil
}

// cloudProviders adds the CloudProviders, and returns the valid specs.
func (c *bundleCluster) cloudProviders(ctx context.Context) (specs []config.Provider, err error) {
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return nil, err
	}
	list, err := client.Resource(config.CloudProviderResource()).List(ctx, metav1.ListOptions{Limit: maxListed})
	if apierrors.IsNotFound(err) {
		return nil, own("the cluster has no such kind")
	}
	if err != nil {
		return nil, err
	}
	c.cut("cloudproviders.json", "CloudProviders", list.GetContinue())
	var all []any
	for _, o := range list.Items {
		written, _, _ := unstructured.NestedMap(o.Object, "spec") // any other type is a mistake
		shown := map[string]any{"metadata": o.Object["metadata"], "status": o.Object["status"]}
		if spec, err := config.DecodeSpec(o.GetName(), written); err == nil {
			shown["spec"] = spec
			specs = append(specs, *spec)
		} else {
			shown["mistaken"] = true
		}
		all = append(all, shown)
	}
	return specs, c.show("cloudproviders.json", all)
}

// know reads the Secrets of a provider, so that their values are removed from free texts.
func (c *bundleCluster) know(ctx context.Context, p *config.Provider) {
	for _, of := range check.Secrets(p) {
		secret, err := c.client.CoreV1().Secrets(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
		if err != nil {
			c.miss("the values of a Secret, which are not looked for in free texts", err)
			continue
		}
		c.secrets++
		for _, value := range secret.Data {
			c.redactor.know(value)
		}
	}
}
