package check

import (
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// The chart's definition is complete, and the lacking fields of another one are named.
func TestWhatADefinitionLacks(t *testing.T) {
	data, err := os.ReadFile("../../../deploy/chart/files/cloudproviders.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var whole map[string]any
	if err := yaml.Unmarshal(data, &whole); err != nil {
		t.Fatal(err)
	}
	read := func() (definition, object map[string]any) {
		definition = runtime.DeepCopyJSON(whole)
		versions := under(definition, "spec")["versions"].([]any)
		return definition, under(versions[0].(map[string]any), "schema", "openAPIV3Schema")
	}
	definition, object := read()
	if missing := lacking(definition); len(missing) > 0 {
		t.Errorf("the chart's definition lacks %v", missing)
	}
	all := 0
	for _, path := range slices.Concat(pathsOf(under(object, "properties", "spec"), "spec"), pathsOf(under(object, "properties", "status"), "status")) {
		definition, object := read()
		where := strings.Split(path, ".")
		parent := object
		for _, name := range where[:len(where)-1] {
			parent = under(parent, "properties", strings.TrimSuffix(name, "[]"))
			if strings.HasSuffix(name, "[]") {
				parent = under(parent, "items")
			}
		}
		delete(under(parent, "properties"), where[len(where)-1])
		if missing := lacking(definition); !slices.Equal(missing, []string{path}) {
			t.Errorf("without %s it lacks %v", path, missing)
		}
		all++
	}
	if all < 100 {
		t.Errorf("only %d fields", all)
	}
}

// pathsOf are the paths of all fields of a schema.
func pathsOf(schema map[string]any, path string) (all []string) {
	for name := range under(schema, "properties") {
		one := under(schema, "properties", name)
		all = append(all, path+"."+name)
		all = append(all, pathsOf(one, path+"."+name)...)
		if items := under(one, "items"); items != nil {
			all = append(all, pathsOf(items, path+"."+name+"[]")...)
		}
	}
	return all
}
