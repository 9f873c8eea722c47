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
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
)

// plan is a future installation.
type plan struct {
	// name of the plan for people.
	name string
	// configuration is a HostConfiguration as written; nil: there is no plan.
	configuration []byte
	// decoded is the checked HostConfiguration, planned or installed; nil if
	// there is none, or it is invalid.
	decoded *v1alpha1.HostConfiguration
	// providers of decoded, and of the readable CloudProvider objects.
	providers []v1alpha1.Provider
	// workload and objects are nil if the plan is only a HostConfiguration.
	workload *workload
	objects  map[string]*unstructured.Unstructured
}

// manifests reports whether the plan is the output of helm template, which
// includes rights and accounts.
func (p *plan) manifests() bool { return p.objects != nil }

func objectKey(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

func (p *plan) has(kind, namespace, name string) bool {
	return p.objects[objectKey(kind, namespace, name)] != nil
}

func readPlan(data []byte, name string) (p plan, err error) {
	p.name = name
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
			return p, fmt.Errorf("%s is not valid YAML: %w", name, err)
		}
		if err := p.take(document); err != nil {
			return p, fmt.Errorf("%s: %w", name, err)
		}
	}
	if p.configuration == nil {
		return p, fmt.Errorf("%s is neither a HostConfiguration (apiVersion: %s) nor what helm template prints of the chart: a ConfigMap %s with config.yaml is missing. Of values: helm template ... --values FILE | ccmctl check -f -", name, v1alpha1.APIVersion, managerName)
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

// configuration reads the HostConfiguration as the manager does.
func (c *checker) configuration(context.Context) {
	where, data := c.plan.name, c.plan.configuration
	if data == nil {
		if c.seen.config == nil {
			return // readable has reported why, or nothing is installed
		}
		where = "configmap " + c.own()
		content, ok := c.seen.config.Data["config.yaml"]
		if !ok {
			c.tell(report.ConfigurationMissing, where, "")
			return
		}
		data = []byte(content)
	}
	c.section("Configuration", where, "the HostConfiguration is valid", func() {
		decoded, err := validation.Decode(data)
		for _, one := range apart(err) {
			c.tell(report.HostConfigurationInvalid, where, one.Error())
		}
		if err != nil {
			return
		}
		c.plan.decoded, c.plan.providers = decoded, decoded.Providers
	})
}

// apart splits an error into its single mistakes.
func apart(err error) []error {
	if err == nil {
		return nil
	}
	var aggregate utilerrors.Aggregate
	if errors.As(err, &aggregate) {
		return utilerrors.Flatten(aggregate).Errors()
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}
