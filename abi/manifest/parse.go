package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// maxDepth bounds the nesting of objects and arrays, so that the parser's
// stack does not depend on the guest.
const maxDepth = 32

// fields are the keys that each object of the manifest may have. Objects that
// are not listed (those of configSchema) may have any.
var fields = map[string][]string{
	"$":        {"name", "version", "abi", "ops", "capabilities", "hosts", "credentials", "configSchema", "limits"},
	"$.abi":    {"min", "max"},
	"$.limits": {"memoryBytes", "instances"},
}

// Parse reads and checks the content of a manifest section. It keeps nothing
// of section. An error says which JSON path is wrong and how to mend it; all
// that is wrong with the values of a well-formed manifest is said at once.
func Parse(section []byte) (*Manifest, error) {
	if len(section) > abi.MaxManifestBytes {
		return nil, fmt.Errorf("manifest: it has %d bytes, shorten it to at most %d", len(section), abi.MaxManifestBytes)
	}
	if !utf8.Valid(section) {
		return nil, errors.New("manifest: it is not valid UTF-8, save it as UTF-8")
	}
	if err := checkShape(section); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	m := new(Manifest)
	if err := json.Unmarshal(section, m); err != nil {
		return nil, fmt.Errorf("manifest: %w", describeTypeError(err))
	}
	if err := m.validate(); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	return m, nil
}

// SupportsABI reports whether the guest can speak version v.
func (m *Manifest) SupportsABI(v uint32) bool { return m.ABI.Min <= v && v <= m.ABI.Max }

// checkShape refuses what encoding/json lets pass: duplicate and unknown keys,
// keys in another case, deep nesting, and anything after the object.
func checkShape(section []byte) error {
	d := json.NewDecoder(bytes.NewReader(section))
	d.UseNumber()
	if err := checkValue(d, "$", 0); err != nil {
		return describeSyntaxError(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("offset %d: something follows the JSON object, remove it", d.InputOffset())
	}
	return nil
}

func checkValue(d *json.Decoder, path string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: it is nested deeper than %d, flatten it", path, maxDepth)
	}
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch {
	case token == json.Delim('{'):
		return checkObject(d, path, depth)
	case path == "$":
		return errors.New("$: it is not a JSON object, write {...}")
	case token == json.Delim('['):
		return checkArray(d, path, depth)
	case token == nil:
		return checkNull(path)
	}
	return nil
}

// checkNull refuses null for the manifest's own fields, where it would pass as
// an absent field. In a schema it is a value like others.
func checkNull(path string) error {
	if strings.HasPrefix(path, "$.configSchema.") || strings.HasPrefix(path, "$.configSchema[") {
		return nil
	}
	return fmt.Errorf("%s: null is not a value, set it or leave the field out", path)
}

func checkObject(d *json.Decoder, path string, depth int) error {
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		key, ok := token.(string)
		if !ok {
			return fmt.Errorf("%s: %v is not a key, write a string", path, token)
		}
		at := path + "." + key
		if seen[key] {
			return fmt.Errorf("%s: the key stands twice, remove one", at)
		}
		seen[key] = true
		if known, ok := fields[path]; ok && !slices.Contains(known, key) {
			return fmt.Errorf("%s: unknown field, remove it; fields here are %s", at, strings.Join(known, ", "))
		}
		if err := checkValue(d, at, depth+1); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

func checkArray(d *json.Decoder, path string, depth int) error {
	for i := 0; d.More(); i++ {
		if err := checkValue(d, fmt.Sprintf("%s[%d]", path, i), depth+1); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

func describeSyntaxError(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("offset %d: it is not valid JSON: %w", syntax.Offset, err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it is not valid JSON: it ends too early, write one JSON object")
	}
	return err
}

func describeTypeError(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("$.%s: it is a JSON %s, write a value that fits %s", wrong.Field, wrong.Value, wrong.Type)
	}
	return err
}
