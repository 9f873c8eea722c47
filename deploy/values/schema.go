package main

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/invopop/jsonschema"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
)

const module = "github.com/wasm-ccm/wasm-ccm"

// schemaOf reflects the values, with the comments of the sources below the
// present directory.
func schemaOf() (*jsonschema.Schema, error) {
	r := &jsonschema.Reflector{Anonymous: true, ExpandedStruct: true, Mapper: text}
	for _, dir := range []string{"host/config/v1alpha1", "deploy/values"} {
		if err := r.AddGoComments(module, dir, jsonschema.WithFullComment()); err != nil {
			return nil, fmt.Errorf("read the comments of %s: %w", dir, err)
		}
	}
	// The reflector knows a main package by another path than its files have.
	r.LookupComment = func(t reflect.Type, field string) string {
		if t.PkgPath() != "main" {
			return ""
		}
		return r.CommentMap[joinName(module+"/deploy/values."+t.Name(), field)]
	}
	schema := r.Reflect(&Values{})
	provider, rights := schema.Definitions["Provider"], schema.Definitions["Rights"]
	if provider == nil || rights == nil {
		return nil, fmt.Errorf("the schema has no provider, or no rights")
	}
	// Names are parts of the names of objects, also in roles. Those of providers have at most 40 characters.
	for field, pattern := range map[string]string{"name": `^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`, "store": `^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$`} {
		for _, has := range []*jsonschema.Schema{provider, rights} {
			if property, ok := has.Properties.Get(field); ok {
				property.Pattern = pattern
			}
		}
	}
	// A host is a name or an address, and no URL.
	if grant := schema.Definitions["Grant"]; grant != nil {
		if host, ok := grant.Properties.Get("host"); ok {
			host.Pattern = `^([^/:]+|[0-9A-Fa-f:.]+)$`
		}
	}
	if engine, ok := provider.Properties.Get("engine"); ok {
		engine.Enum = []any{""}
		for _, name := range v1alpha1.Engines() {
			engine.Enum = append(engine.Enum, name)
		}
	}
	// Without a source it is the ConfigMap that is called after the provider.
	provider.Required = slices.DeleteFunc(provider.Required, func(name string) bool { return name == "source" })
	return schema, nil
}

func joinName(t, field string) string {
	if field == "" {
		return t
	}
	return t + "." + field
}

// text are the types that read themselves from a text.
func text(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[metav1.Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`}
	case reflect.TypeFor[resource.Quantity]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "string"}, {Type: "integer"}}}
	case reflect.TypeFor[v1alpha1.PhaseMode]():
		// YAML takes a bare Off for false.
		return &jsonschema.Schema{Enum: []any{v1alpha1.PhaseRequired, v1alpha1.PhaseAllowed, v1alpha1.PhaseOff, false}}
	}
	return nil
}
