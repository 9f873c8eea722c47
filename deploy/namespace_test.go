package deploy_test

import (
	"path/filepath"
	"testing"
)

// A namespace may be called like a number, and is a text all the same: the API
// server refuses another type.
func TestANamespaceThatLooksLikeANumber(t *testing.T) {
	depend(t)
	examples, err := filepath.Glob(filepath.Join(chart, "examples", "*.yaml"))
	if err != nil || len(examples) == 0 {
		t.Fatalf("%d examples: %v", len(examples), err)
	}
	for _, example := range examples {
		for _, object := range objects(t, render(t, example, "--namespace=12345")) {
			namespaces(t, filepath.Base(example)+": "+object.GetKind()+" "+object.GetName(), object.Object)
		}
	}
}

// namespaces fails of those that are numbers.
func namespaces(t *testing.T, where string, value any) {
	t.Helper()
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			switch field.(type) {
			case int64, float64:
				if key == "namespace" {
					t.Errorf("%s: the namespace is the number %v", where, field)
				}
			}
			namespaces(t, where, field)
		}
	case []any:
		for _, item := range value {
			namespaces(t, where, item)
		}
	}
}
