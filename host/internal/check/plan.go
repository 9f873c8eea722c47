package check

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
)

// plan is an installation that is to be.
type plan struct {
	// configuration is a HostConfiguration as it was written; nil: there is no plan.
	configuration []byte
	// decoded is the HostConfiguration that is checked, planned or not; nil if there is
	// none, or it is invalid.
	decoded *v1alpha1.HostConfiguration
	// providers are those of decoded, and the CloudProvider objects that can be read.
	providers []v1alpha1.Provider
	// workload and objects are nil if the plan is a HostConfiguration alone.
	workload *workload
	objects  map[string]*unstructured.Unstructured
}

// manifests says whether the plan is what helm template prints: then rights and
// accounts come with it.
func (p *plan) manifests() bool { return p.objects != nil }

func objectKey(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

func (p *plan) has(kind, namespace, name string) bool {
	return p.objects[objectKey(kind, namespace, name)] != nil
}

func readPlan(data []byte) (p plan, err error) {
	if data == nil {
		return p, nil
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return p, fmt.Errorf("the plan is not valid YAML: %w", err)
		}
		if err := p.take(document); err != nil {
			return p, fmt.Errorf("the plan: %w", err)
		}
	}
	if p.configuration == nil {
		return p, fmt.Errorf("the plan is neither a HostConfiguration (apiVersion: %s) nor what helm template prints of the chart: a ConfigMap %s with config.yaml is missing", v1alpha1.APIVersion, managerName)
	}
	return p, nil
}

func (p *plan) take(document []byte) error {
	var object unstructured.Unstructured
	if err := yaml.Unmarshal(document, &object.Object); err != nil {
		return err
	}
	if object.Object == nil {
		return nil // comments only
	}
	if object.GetKind() == v1alpha1.Kind {
		p.configuration = document
		return nil
	}
	if p.objects == nil {
		p.objects = map[string]*unstructured.Unstructured{}
	}
	p.objects[objectKey(object.GetKind(), object.GetNamespace(), object.GetName())] = &object
	if object.GetName() != managerName {
		return nil
	}
	return p.takeManager(&object)
}

func (p *plan) takeManager(object *unstructured.Unstructured) error {
	from := runtime.DefaultUnstructuredConverter.FromUnstructured
	switch object.GetKind() {
	case "ConfigMap":
		var cm corev1.ConfigMap
		if err := from(object.Object, &cm); err != nil {
			return err
		}
		if content, ok := cm.Data["config.yaml"]; ok {
			p.configuration = []byte(content)
		}
	case "DaemonSet":
		var set appsv1.DaemonSet
		if err := from(object.Object, &set); err != nil {
			return err
		}
		p.workload = ofDaemonSet(&set)
	case "Deployment":
		var set appsv1.Deployment
		if err := from(object.Object, &set); err != nil {
			return err
		}
		p.workload = ofDeployment(&set)
	}
	return nil
}

// configuration reads the HostConfiguration, as the manager does.
func (c *checker) configuration(context.Context) {
	where, data := "the plan", c.plan.configuration
	if data == nil {
		if c.seen.config == nil {
			return // readable has said why, or nothing is installed
		}
		where = "configmap " + c.own()
		content, ok := c.seen.config.Data["config.yaml"]
		if !ok {
			c.error("ConfigurationMissing", where, "it has no key config.yaml", "run helm upgrade")
			return
		}
		data = []byte(content)
	}
	c.section("Configuration", where, "the HostConfiguration is valid", func() {
		decoded, err := v1alpha1.Decode(data)
		if err != nil {
			c.error("ConfigurationInvalid", where, err.Error(), "correct it in the values; a manager that runs keeps what it had, and one that starts ends")
			return
		}
		c.plan.decoded, c.plan.providers = decoded, decoded.Providers
	})
}
