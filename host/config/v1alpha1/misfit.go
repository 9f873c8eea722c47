package v1alpha1

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"
)

// misfit says where the value is that cannot be decoded. The decoder's own
// error has no index, and for quantities and durations no path at all.
func misfit(plain []byte, cause error) error {
	var document any
	if err := stdjson.Unmarshal(plain, &document); err != nil {
		return cause
	}
	path, cause := deepest(document, func(v any) any { return v }, nil, cause)
	return fmt.Errorf("%s: %s", path, reason(cause))
}

// deepest is the path of the smallest part of a value that fails by itself.
// Within puts a part to its place in a document that has nothing else.
func deepest(value any, within func(any) any, path *field.Path, cause error) (*field.Path, error) {
	try := func(part any, inner func(any) any, place *field.Path) (*field.Path, error) {
		whole := func(v any) any { return within(inner(v)) }
		if err := decodes(whole(part)); err != nil {
			return deepest(part, whole, place, err)
		}
		return nil, nil
	}
	switch v := value.(type) {
	case map[string]any:
		if err := decodes(within(map[string]any{})); err != nil {
			return path, err // there must be none
		}
		for key, part := range v {
			if p, err := try(part, func(x any) any { return map[string]any{key: x} }, path.Child(key)); p != nil {
				return p, err
			}
		}
	case []any:
		if err := decodes(within([]any{})); err != nil {
			return path, err
		}
		for i, part := range v {
			if p, err := try(part, func(x any) any { return []any{x} }, path.Index(i)); p != nil {
				return p, err
			}
		}
	}
	return path, cause
}

// decodes returns the error of decoding a document, whatever it says of fields
// that do not exist.
func decodes(document any) error {
	plain, err := stdjson.Marshal(document)
	if err != nil {
		return err
	}
	return json.UnmarshalCaseSensitivePreserveInts(plain, &HostConfiguration{})
}

// reason is an error as somebody reads it who writes YAML. It repeats no value,
// which may be a secret in the wrong place.
func reason(err error) string {
	if errors.Is(err, resource.ErrFormatWrong) || errors.Is(err, resource.ErrSuffix) || errors.Is(err, resource.ErrNumeric) {
		return "must be a quantity such as 64Mi or 64M"
	}
	text := err.Error()
	if strings.HasPrefix(text, "time: ") {
		return "must be a duration such as 30s or 2m"
	}
	_, wanted, typed := strings.Cut(text, " of type ")
	switch {
	case !typed:
		return text
	case wanted == "string":
		return "must be a text; put numbers in quotes, and give durations a unit (30s)"
	case wanted == "bool":
		return "must be true or false"
	case strings.HasPrefix(wanted, "[]"):
		return "must be a list: [a, b]"
	case strings.HasPrefix(wanted, "int"), strings.HasPrefix(wanted, "uint"), strings.HasPrefix(wanted, "float"):
		return "must be a number that fits its type (" + wanted + ")"
	}
	return "must have fields of its own: {name: value}"
}
