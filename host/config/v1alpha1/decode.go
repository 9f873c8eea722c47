package v1alpha1

import (
	stdjson "encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// MaxBytes is the largest file that is read.
const MaxBytes = 1 << 20

// MaxProviders is the largest number of providers in a file.
const MaxProviders = 16

// Parse reads a file in YAML or JSON and fills in the defaults. It refuses what
// the types have no place for; the error gives the path of every mistake. Values
// are not validated: whether a host is a host, only the manager and ccmctl check.
func Parse(data []byte) (*HostConfiguration, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("it has %d bytes, at most %d are allowed", len(data), MaxBytes)
	}
	plain, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("it is not valid YAML: %w", err)
	}
	if err := checkType(plain); err != nil {
		return nil, err
	}
	return fill(plain)
}

// fill puts a document in JSON into a configuration with its defaults.
func fill(plain []byte) (*HostConfiguration, error) {
	c := &HostConfiguration{}
	strict, err := json.UnmarshalStrict(plain, c)
	if err != nil {
		err = misfit(plain, err)
	}
	if err := errors.Join(append(strict, err)...); err != nil {
		return nil, err
	}
	SetDefaults(c)
	return c, nil
}

// checkType looks at apiVersion and kind before anything else: of another
// version every field would be wrong.
func checkType(plain []byte) error {
	var head struct {
		APIVersion string           `json:"apiVersion"`
		Kind       string           `json:"kind"`
		Providers  countedProviders `json:"providers"`
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(plain, &head); err != nil {
		return fmt.Errorf("apiVersion and kind: %w", err)
	}
	if head.APIVersion != APIVersion || head.Kind != Kind {
		return fmt.Errorf("it is %.80q of %.80q; begin it with apiVersion: %s and kind: %s", head.Kind, head.APIVersion, APIVersion, Kind)
	}
	// Invariant M42 (host/SECURITY.md): they are counted before each takes a large struct.
	if len(head.Providers) > MaxProviders {
		return field.TooMany(field.NewPath("providers"), len(head.Providers), MaxProviders)
	}
	return nil
}

// countedProviders are not looked into. What is no list is for who reads it.
type countedProviders []stdjson.RawMessage

// UnmarshalJSON is json.Unmarshaler's.
func (c *countedProviders) UnmarshalJSON(data []byte) error {
	_ = stdjson.Unmarshal(data, (*[]stdjson.RawMessage)(c))
	return nil
}
