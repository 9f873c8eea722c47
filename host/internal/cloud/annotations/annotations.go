// Package annotations finds annotations and labels of this project's domain on Services and
// Nodes that no package reads, because they are misspelt or on the wrong object. It reports
// them by an Event on the object.
//
// A package that reads a key registers it.
package annotations

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Key is an annotation or a label that a package reads.
type Key struct {
	// Kind of the object, Service or Node.
	Kind string
	// Label is true for a label, false for an annotation.
	Label bool
	// Name with its prefix, as wasm-ccm.dev/provider.
	Name string
}

func (k Key) String() string {
	place := "annotation"
	if k.Label {
		place = "label"
	}
	return fmt.Sprintf("%s %s of a %s", place, k.Name, k.Kind)
}

// Keys are the registered keys of a domain.
type Keys struct {
	domain string
	all    []Key
}

// NewKeys returns the keys of a domain, as wasm-ccm.dev.
func NewKeys(domain string, all ...Key) *Keys { return &Keys{domain, all} }

// Has reports whether a key of this name is registered.
func (k *Keys) Has(name string) bool {
	return slices.ContainsFunc(k.all, func(key Key) bool { return key.Name == name })
}

// Bounds per object.
const (
	maxKeys   = 1000 // keys examined; 256 KiB of annotations can hold many
	maxUnread = 5    // keys reported
	// slips is the largest edit distance at which a registered key is suggested.
	slips = 2
)

// unread returns the unregistered keys of our domain on an object, sorted, each with the
// suggested key.
func (k *Keys) unread(kind string, annotations, labels map[string]string) (texts []string) {
	for _, name := range few(annotations) {
		texts = append(texts, k.explain(Key{Kind: kind, Name: name})...)
	}
	for _, name := range few(labels) {
		texts = append(texts, k.explain(Key{Kind: kind, Label: true, Name: name})...)
	}
	return texts[:min(len(texts), maxUnread)]
}

// few returns the names in order, at most maxKeys.
func few(all map[string]string) []string {
	names := slices.Sorted(maps.Keys(all))
	return names[:min(len(names), maxKeys)]
}

// explain says what is wrong with a key; nothing for a registered key or another domain's.
func (k *Keys) explain(found Key) []string {
	if slices.Contains(k.all, found) {
		return nil
	}
	best, distance := k.nearest(found)
	if best.Name == found.Name {
		return []string{fmt.Sprintf("unknown %s: it must be the %s", found, best)}
	}
	ours, known := k.ours(found.Name)
	if distance > slips && (!ours || !known) {
		return nil
	}
	text := fmt.Sprintf("unknown %s", Key{found.Kind, found.Label, text.Quote(found.Name)})
	if best.Name != "" {
		text += ", the nearest known one is the " + best.String()
	}
	return []string{text}
}

// ours reports whether a name is in the domain or below it, and whether keys with its prefix
// are registered: a provider may read annotations of its own, under a prefix of its own
// below the domain.
func (k *Keys) ours(name string) (ours, known bool) {
	prefix, _, ok := strings.Cut(name, "/")
	ours = ok && (prefix == k.domain || strings.HasSuffix(prefix, "."+k.domain))
	return ours, slices.ContainsFunc(k.all, func(key Key) bool { return strings.HasPrefix(key.Name, prefix+"/") })
}

// nearest returns the known key with the most similar name; among equals the
// key of the same kind and place.
func (k *Keys) nearest(found Key) (best Key, distance int) {
	if len(k.all) == 0 {
		return Key{}, slips + 1
	}
	far := func(key Key) int {
		d := 4 * edits(key.Name, found.Name)
		if key.Kind != found.Kind {
			d += 2
		}
		if key.Label != found.Label {
			d++
		}
		return d
	}
	best = slices.MinFunc(k.all, func(a, b Key) int { return cmp.Compare(far(a), far(b)) })
	return best, far(best) / 4
}

// edits is the edit distance of two texts, or a large number for long texts.
func edits(a, b string) int {
	if diff := len(a) - len(b); diff > 32 || diff < -32 {
		return 32
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := corner
			if a[i] != b[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, corner+1, row[j]+1)
		}
	}
	return row[len(b)]
}
