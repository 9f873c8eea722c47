package v1alpha1

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DecodeSpec reads the spec of the CloudProvider of that name as a file's part
// is read, and fills in the defaults. It compares it with no other provider:
// ValidateAmong does. The error tells every mistake with its path.
func DecodeSpec(name string, spec map[string]any) (*Provider, error) {
	part := map[string]any{"name": name}
	for key, value := range spec {
		if key == "name" {
			return nil, errors.New("spec.name: the object's name is the provider's name: remove it")
		}
		part[key] = value
	}
	plain, err := stdjson.Marshal(map[string]any{"apiVersion": APIVersion, "kind": Kind, "providers": []any{part}})
	if err != nil {
		return nil, err
	}
	if len(plain) > MaxBytes {
		return nil, fmt.Errorf("spec: it has %d bytes, at most %d are allowed", len(plain), MaxBytes)
	}
	// There is one reader of what a provider may do, so that a file and an
	// object never mean different things.
	c, err := fill(plain)
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "providers[0]", "spec"))
	}
	return &c.Providers[0], nil
}

// ValidateAmong returns every mistake of a CloudProvider that has its defaults,
// and what it claims of the others, which have no mistakes by themselves. Its
// own paths begin with spec.
func ValidateAmong(p *Provider, others []Provider) field.ErrorList {
	all := append(append([]Provider(nil), others...), *p)
	path := field.NewPath("providers")
	return validateProviders(all, path, func(i int) *field.Path {
		if i == len(others) {
			return field.NewPath("spec")
		}
		return path.Key(all[i].Name)
	})
}
