package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// field is a field that a bundle may have, of one of the kinds in bundlefields.go.
type field struct {
	name, kind string
	inner      []field
}

// object is the kind of a field with inner ones.
const object = "object"

var fieldTokens = regexp.MustCompile(`[^\s{}]+|[{}]`)

// fieldsOf reads a list of bundlefields.go.
func fieldsOf(list string) []field {
	all, _ := parseFields(fieldTokens.FindAllString(list, -1))
	return all
}

func parseFields(tokens []string) (all []field, rest []string) {
	for len(tokens) > 0 {
		token := tokens[0]
		tokens = tokens[1:]
		switch token {
		case "}":
			return all, tokens
		case "{":
			last := &all[len(all)-1]
			last.kind = object
			last.inner, tokens = parseFields(tokens)
		default:
			f := field{}
			f.name, f.kind, _ = strings.Cut(token, ":")
			if common, found := commonFields[f.kind]; found {
				f.kind, f.inner = object, fieldsOf(common)
			}
			if f.name == "" {
				all = append(all, f.inner...)
			} else {
				all = append(all, f)
			}
		}
	}
	return all, nil
}

// picked has only the fields of a document, or of each in a list, that the file may have.
// All others are left out, including those of later versions.
func picked(file string, document any) (any, error) {
	data, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	for _, d := range documents {
		if d.file != file {
			continue
		}
		if shown := (field{kind: object, inner: fieldsOf(d.fields)}).show(value); shown != nil {
			return shown, nil
		}
	}
	return []any{}, nil
}

// show returns what a bundle has of a value of decoded JSON: nil for nothing.
func (f field) show(value any) any {
	switch v := value.(type) {
	case []any:
		return f.showList(v)
	case map[string]any:
		return f.showObject(v)
	case string:
		return f.showText(v)
	case json.Number, bool:
		if f.kind == "number" {
			return v
		}
	}
	return nil
}

func (f field) showList(list []any) any {
	if f.kind == "size" {
		return len(list)
	}
	var all []any
	for _, one := range list {
		if shown := f.show(one); shown != nil {
			all = append(all, shown)
		}
	}
	if all == nil {
		return nil
	}
	return all
}

// showObject shows an object's fields, or the keys of a map without its values.
func (f field) showObject(value map[string]any) any {
	if f.kind == "keys" {
		return wordsOf(slices.Sorted(maps.Keys(value)))
	}
	if f.kind != object {
		return nil
	}
	out := map[string]any{}
	for _, inner := range f.inner {
		if shown := inner.show(value[inner.name]); shown != nil {
			out[inner.name] = shown
		}
	}
	return out
}

func (f field) showText(text string) any {
	switch {
	case text == "":
		return nil
	case f.kind == "":
		return word(text)
	case f.kind == "words": // several in one text, such as "Service default/web"
		return wordsOf(strings.Fields(text))
	case f.kind == "size":
		return len(text)
	case f.kind == "measure" && isMeasure(text):
		return text
	case f.kind == "origin": // SCHEME://HOST:PORT of a URL: a path may be a secret
		if address, err := url.Parse(text); err == nil {
			return word(address.Scheme + "://" + address.Host)
		}
	case f.kind == "flag":
		return flagOf(text)
	}
	return nil
}

// quantityShape are the quantities that Kubernetes writes. Its parser takes minutes for 1e-99999999.
var quantityShape = regexp.MustCompile(`^-?[0-9]+([numkMGTPE]|[KMGTPE]i|e-?[0-9]{1,2})?$`)

func isMeasure(text string) bool {
	const most = 64
	_, noTime := time.Parse(time.RFC3339, text)
	_, noDuration := time.ParseDuration(text)
	return len(text) <= most && (noTime == nil || noDuration == nil || quantityShape.MatchString(text))
}

// flagOf is an argument --NAME=VALUE of the manager. An argument without -- may be the
// value of the previous one, and is left out.
func flagOf(argument string) any {
	name, value, _ := strings.Cut(argument, "=")
	if !strings.HasPrefix(name, "--") {
		return nil
	}
	shown := map[string]any{"name": word(name)}
	if value != "" && slices.Contains(harmlessFlags, name) {
		shown["value"] = word(value)
	}
	return shown
}

// word is a text in a bundle: a name, a reason, a version, an address or a digest.
// Sentences, URLs with a user, and texts with = or a quote are no words.
type word string

func wordsOf(texts []string) []word {
	all := make([]word, len(texts))
	for i, text := range texts {
		all[i] = word(text)
	}
	return all
}

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

// harmlessFlags are the flags whose values are in a bundle: those that the
// chart sets, and that supporters ask for first.
var harmlessFlags = []string{
	"--allocate-node-cidrs", "--cluster-cidr", "--cluster-name", "--concurrent-node-syncs", "--concurrent-service-syncs", "--config",
	"--configure-cloud-routes", "--controllers", "--health-probe-bind-address", "--leader-elect", "--leader-elect-lease-duration",
	"--leader-elect-renew-deadline", "--leader-elect-resource-namespace", "--leader-elect-retry-period", "--node-monitor-period",
	"--provider-compilation-cache-dir", "--provider-compilation-cache-size", "--provider-store-namespace", "--route-reconciliation-period",
	"--secure-port", "--use-service-account-credentials", "--v", "--wasm-engine",
}
