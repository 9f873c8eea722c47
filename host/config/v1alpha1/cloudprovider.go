package v1alpha1

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"
)

// DecodeSpec reads the spec of the CloudProvider of that name as a file's part
// is read, and fills in the defaults. As Parse, it validates no value.
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
