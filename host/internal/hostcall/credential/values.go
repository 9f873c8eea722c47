package credential

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// maxValueBytes is the size of the largest value of a Secret that is used.
const maxValueBytes = 64 << 10

// values are a Secret's by key. Their printed form has no values.
type values map[string]string

// Format prints their number, whatever the verb.
func (v values) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "%d values", len(v)) }

// MarshalText is for JSON and loggers.
func (v values) MarshalText() ([]byte, error) { return fmt.Append(nil, v), nil }

// redacted is embedded in types with secrets, and replaces their printed form.
//
// Invariant S6 (host/SECURITY.md): every type with secrets embeds it.
type redacted struct{}

// Format prints the same whatever the verb.
func (redacted) Format(f fmt.State, _ rune) { fmt.Fprint(f, "[redacted]") }

// MarshalText is for JSON and loggers.
func (redacted) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }

// pick returns the values of the keys, and those to scrub. Its errors hold no values.
func pick(label string, data map[string][]byte, k keys, public []string) (values, [][]byte, error) {
	names := slices.Concat(k.required, k.optional)
	if k.all {
		names = slices.Sorted(maps.Keys(data))
	}
	public = slices.Concat(public, k.public)
	out := make(values, len(names))
	var secret [][]byte
	for _, name := range names {
		value, ok := data[name]
		if !ok && slices.Contains(k.optional, name) {
			continue
		}
		trimmed := bytes.TrimRight(value, "\r\n")
		if err := checkValue(label, trimmed, ok, slices.Contains(public, name)); err != nil {
			return nil, nil, fmt.Errorf("key %q %w", name, err)
		}
		if !slices.Contains(public, name) {
			secret = append(secret, trimmed)
		}
		if out[name] = string(trimmed); k.all {
			out[name] = string(value)
		}
	}
	return out, secret, nil
}

func checkValue(label string, value []byte, present, public bool) error {
	switch {
	case !present:
		return errors.New("is missing; add it to the Secret or name another key in the HostConfiguration")
	case len(value) > maxValueBytes:
		return fmt.Errorf("has %d bytes, the limit is %d", len(value), maxValueBytes)
	// Invariant S10 (host/SECURITY.md): a value that cannot be scrubbed is not used.
	case !public && len(value) < minSecretBytes:
		return fmt.Errorf("has %d bytes; a secret needs at least %d, since shorter values occur in other text. If it is not secret, list it in publicKeys", len(value), minSecretBytes)
	case !public && !scrubbable(label, value):
		return errors.New("has a value that cannot be scrubbed; choose a secret that cannot be guessed")
	}
	return nil
}
