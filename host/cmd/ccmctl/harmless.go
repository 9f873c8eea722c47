package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// pick fills a type with the document's fields that the type has. All others
// are left out, including those of later versions.
func pick[T any](document any) (T, error) {
	var out T
	data, err := json.Marshal(document)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	return out, err
}

// picked fills a type for each item. Without items the result is empty, not nil.
func picked[T any](items any) ([]T, error) {
	all, err := pick[[]T](items)
	if err == nil && all == nil {
		all = []T{}
	}
	return all, err
}

// word is a text in a bundle: a name, a reason, a version, an address or a digest.
// Sentences, URLs with a user, and texts with = or a quote are no words.
type word string

var wordShape = regexp.MustCompile(`^([A-Za-z0-9._:/*+\[\]-]{1,512}(@sha256:[0-9a-f]{64})?)?$`)

// MarshalJSON is the only way of a text into the archive.
//
// Invariant V6 (host/SECURITY.md): a text without this shape is left out.
func (w word) MarshalJSON() ([]byte, error) {
	if !wordShape.MatchString(string(w)) {
		w = word(fmt.Sprintf("[left out: %d bytes]", len(w)))
	}
	return json.Marshal(string(w))
}

// words are several words in one text, such as "Service default/web".
type words []word

// UnmarshalJSON implements json.Unmarshaler.
func (w *words) UnmarshalJSON(data []byte) error {
	var s string
	err := json.Unmarshal(data, &s)
	for _, one := range strings.Fields(s) {
		*w = append(*w, word(one))
	}
	return err
}

// keys of a map, without its values.
type keys []word

// UnmarshalJSON implements json.Unmarshaler.
func (k *keys) UnmarshalJSON(data []byte) error {
	var values map[word]json.RawMessage
	err := json.Unmarshal(data, &values)
	*k = slices.Sorted(maps.Keys(values))
	return err
}

// size is the length of a text in bytes, or of a list in entries.
type size int

// UnmarshalJSON implements json.Unmarshaler.
func (s *size) UnmarshalJSON(data []byte) error {
	var list []json.RawMessage
	if json.Unmarshal(data, &list) == nil {
		*s = size(len(list))
		return nil
	}
	var text string
	err := json.Unmarshal(data, &text)
	*s = size(len(text))
	return err
}

// origin is SCHEME://HOST:PORT of a URL: a path may be a secret.
type origin word

// UnmarshalJSON implements json.Unmarshaler.
func (o *origin) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	if address, err := url.Parse(s); err == nil {
		*o = origin(address.Scheme + "://" + address.Host)
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (o origin) MarshalJSON() ([]byte, error) { return word(o).MarshalJSON() }

// flag is an argument --NAME=VALUE of the manager.
type flag struct {
	Name  word `json:"name"`
	Value word `json:"value,omitempty"`
}

// flags are arguments. An argument without -- may be the value of the previous
// one, and is left out.
type flags []flag

// UnmarshalJSON implements json.Unmarshaler.
func (f *flags) UnmarshalJSON(data []byte) error {
	var arguments []string
	err := json.Unmarshal(data, &arguments)
	for _, argument := range arguments {
		if name, value, _ := strings.Cut(argument, "="); strings.HasPrefix(name, "--") {
			if !slices.Contains(harmlessFlags, name) {
				value = ""
			}
			*f = append(*f, flag{word(name), word(value)})
		}
	}
	return err
}

// harmlessFlags are the flags whose values are in a bundle: those that the
// chart sets, and that supporters ask for first.
var harmlessFlags = []string{
	"--allocate-node-cidrs", "--cluster-cidr", "--cluster-name", "--concurrent-node-syncs", "--concurrent-service-syncs", "--config",
	"--configure-cloud-routes", "--controllers", "--health-probe-bind-address", "--leader-elect", "--leader-elect-lease-duration",
	"--leader-elect-renew-deadline", "--leader-elect-resource-namespace", "--leader-elect-retry-period", "--node-monitor-period",
	"--provider-compilation-cache-dir", "--provider-compilation-cache-size", "--provider-store-namespace", "--route-reconciliation-period",
	"--secure-port", "--use-service-account-credentials", "--v", "--wasm-engine",
}
