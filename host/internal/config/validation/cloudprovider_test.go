package validation_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
)

// parts are the providers of the full example, as the specs of objects.
func parts(t testing.TB) (all []map[string]any) {
	t.Helper()
	var c struct{ Providers []map[string]any }
	if err := yaml.Unmarshal([]byte(read(t)), &c); err != nil {
		t.Fatal(err)
	}
	return c.Providers
}

// An object means the same as equal text in the file.
func TestAnObjectIsReadAsTheFile(t *testing.T) {
	file, err := validation.Decode([]byte(read(t)))
	if err != nil {
		t.Fatal(err)
	}
	for i, spec := range parts(t) {
		name := spec["name"].(string)
		delete(spec, "name")
		p, err := v1alpha1.DecodeSpec(name, spec)
		if err != nil || !reflect.DeepEqual(*p, file.Providers[i]) {
			t.Errorf("%s: %v\n%+v\n%+v", name, err, p, file.Providers[i])
			continue
		}
		var others []v1alpha1.Provider
		others = append(append(others, file.Providers[:i]...), file.Providers[i+1:]...)
		if errs := validation.ValidateAmong(p, others); len(errs) > 0 {
			t.Error(errs.ToAggregate())
		}
	}
}

func TestMistakesOfAnObjectHaveTheirPath(t *testing.T) {
	for mistake, want := range map[string]string{
		`{"name": "other"}`:                                  "spec.name: the object's name is the provider's name: remove it",
		`{"provenanse": {}}`:                                 `unknown field "spec.provenanse"`,
		`{"rollout": {"prob": "Off"}}`:                       `unknown field "spec.rollout.prob"`,
		`{"grants": [{"host": 7}]}`:                          "spec.grants[0].host: must be a text",
		`{"grants": {}}`:                                     "spec.grants: must be a list",
		`{"grants": [{"host": "*.com"}]}`:                    "spec.grants[0].host",
		`{"limits": {"memory": "much"}}`:                     "spec.limits.memory: must be a quantity",
		`{"store": "two"}`:                                   `spec.store: Duplicate value: "two": it is that of providers[two].store`,
		`{"routing": {"services": {"default": true}}}`:       "spec.routing.services.default: Duplicate value",
		`{"source": {"directory": "/a"}, "configFrom": {}}`:  "spec.configFrom: Required value: give either configMap or secret",
		`{"source": {"directory": "/a"}, "capabilities": 1}`: "spec.capabilities: must be a list",
	} {
		spec := map[string]any{"store": "one", "source": map[string]any{"directory": "/one"}}
		var changes map[string]any
		if err := json.Unmarshal([]byte(mistake), &changes); err != nil {
			t.Fatal(err)
		}
		maps.Copy(spec, changes)
		p, err := v1alpha1.DecodeSpec("one", spec)
		if err == nil {
			c, decoded := validation.Decode(providers("name: two, store: two, source: {directory: /two}, routing: {services: {default: true}}"))
			if decoded != nil {
				t.Fatal(decoded)
			}
			err = validation.ValidateAmong(p, c.Providers).ToAggregate()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", mistake, err, want)
		}
	}
}

// The validation of an object equals that of the file.
func FuzzDecodeSpec(f *testing.F) {
	for _, spec := range parts(f) {
		delete(spec, "name")
		data, err := json.Marshal(spec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"source": {"directory": "/a"}, "grants": [{"host": 1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var spec map[string]any
		if len(data) > 64<<10 || json.Unmarshal(data, &spec) != nil || spec == nil {
			return
		}
		if _, named := spec["name"]; named {
			return
		}
		p, err := v1alpha1.DecodeSpec("one", spec)
		if err == nil {
			err = validation.ValidateAmong(p, nil).ToAggregate()
		}
		part := maps.Clone(spec)
		part["name"] = "one"
		file, marshalled := json.Marshal(map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.Kind, "providers": []any{part}})
		if marshalled != nil {
			t.Fatal(marshalled)
		}
		c, fileErr := validation.Decode(file)
		if (err == nil) != (fileErr == nil) {
			t.Fatalf("as an object: %v\nin the file: %v", err, fileErr)
		}
		if err == nil && !reflect.DeepEqual(*p, c.Providers[0]) {
			t.Fatalf("as an object: %+v\nin the file: %+v", p, c.Providers[0])
		}
	})
}
