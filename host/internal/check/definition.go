package check

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
)

// maxFields bounds the missing fields that a finding names.
const maxFields = 5

// definition compares the CustomResourceDefinition of CloudProviders with the
// Go types behind the chart's: an older definition drops unknown fields
// silently, without an error.
func (c *checker) definition(ctx context.Context, name string) {
	resource := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	object, err := c.dynamic.Resource(resource).Get(ctx, name, metav1.GetOptions{})
	if !c.readable("crd "+name, err) {
		return
	}
	missing := lacking(object.Object)
	if len(missing) == 0 {
		return
	}
	named := strings.Join(missing[:min(len(missing), maxFields)], ", ")
	if more := len(missing) - maxFields; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	c.tell(report.CRDOld, "crd "+name, named)
}

// lacking are the fields of a CloudProvider that a definition lacks.
func lacking(definition map[string]any) (missing []string) {
	versions, _, _ := unstructured.NestedSlice(definition, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if version["name"] == v1alpha1.CloudProviderResource().Version {
			object := under(version, "schema", "openAPIV3Schema")
			missing = append(missing, absent(reflect.TypeFor[v1alpha1.Provider](), under(object, "properties", "spec"), "spec")...)
			missing = append(missing, absent(reflect.TypeFor[v1alpha1.CloudProviderStatus](), under(object, "properties", "status"), "status")...)
		}
	}
	// The provider's name is the object's name.
	return slices.DeleteFunc(missing, func(path string) bool { return path == "spec.name" })
}

// absent are the fields of a type that a schema lacks, by their paths. The
// types have no cycle, as no schema has.
func absent(t reflect.Type, schema map[string]any, path string) (missing []string) {
	switch {
	case t.Kind() == reflect.Pointer:
		return absent(t.Elem(), schema, path)
	case t.Kind() == reflect.Slice:
		return absent(t.Elem(), under(schema, "items"), path+"[]")
	case t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()):
		return nil // a scalar, or a type written as one; the keys of a map are free
	}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known := under(schema, "properties", name)
		if known == nil {
			missing = append(missing, path+"."+name)
			continue
		}
		missing = append(missing, absent(field.Type, known, path+"."+name)...)
	}
	return missing
}

// under is the object at a path, nil if there is none.
func under(object map[string]any, path ...string) map[string]any {
	found, _, _ := unstructured.NestedFieldNoCopy(object, path...)
	inner, _ := found.(map[string]any)
	return inner
}
