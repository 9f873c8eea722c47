package upstream

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// origin is a place in the cloud's API that answered about an instance, and the
// kind of that document.
type origin struct{ place, format string }

// learn records where the cloud told of an existing instance. A status "not
// found" from any other place may be a gateway's, or due to a wrong prefix.
func (k *known) learn(w *witness, node *abi.Node) {
	ids := identities(node)
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range w.answers {
		a := &w.answers[i]
		named := slices.ContainsFunc(ids, func(id string) bool { return contains(a.answer, id) })
		if _, _, err := read(a.answer); err != nil || a.err != nil || a.status != http.StatusOK || !named {
			continue
		}
		place := placeOf(a.line, node)
		k.remember(origin{place, formatOf(a.answer)})
		if !strings.Contains(place, "*") { // a collection; its instances are behind it
			k.remember(origin{place + "/*", formatOf(a.answer)})
		}
	}
}

func (k *known) remember(seen origin) {
	k.origins = slices.DeleteFunc(k.origins, func(other origin) bool { return other == seen })
	k.origins = append(k.origins[max(0, len(k.origins)-maxKnown+1):], seen)
}

// understood reports whether the answer comes from a learned place, as a
// document of its kind.
func (k *known) understood(a *answer, node *abi.Node) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Contains(k.origins, origin{placeOf(a.line, node), formatOf(a.answer)})
}

// formatOf is the kind of a document that read accepts.
func formatOf(document []byte) string {
	if strings.HasPrefix(strings.TrimSpace(string(document)), "<") {
		return "XML"
	}
	return "JSON"
}

// placeOf is the method and the URL of a request without the parts of one
// instance: the query, and path segments with one of its names or its provider
// ID.
func placeOf(line string, node *abi.Node) string {
	method, address, _ := strings.Cut(line, " ")
	u, err := url.Parse(address)
	if err != nil {
		return line
	}
	_, id, _ := strings.Cut(node.ProviderId, "://")
	own := append(strings.Split(id, "/"), node.Name, node.SystemUuid)
	parts := strings.Split(u.Path, "/")
	for i, part := range parts {
		if slices.ContainsFunc(own, func(o string) bool { return o != "" && strings.EqualFold(o, part) }) {
			parts[i] = "*"
		}
	}
	return method + " " + u.Scheme + "://" + u.Host + strings.Join(parts, "/")
}

// notFound reports whether the answer says by its status that the instance does
// not exist. A gateway may send the status, too, so the cloud's document must
// name the instance, and not only by the path, which gateways repeat. Without
// names it must have the last part of the path.
func (a *answer) notFound(names []string) bool {
	if a.err != nil || a.status != http.StatusNotFound && a.status != http.StatusGone {
		return false
	}
	values, _, err := read(a.answer)
	if err != nil {
		return false
	}
	_, address, _ := strings.Cut(a.line, " ")
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	if names == nil {
		names = []string{lastOf(strings.TrimSuffix(u.Path, "/"))}
	}
	return slices.ContainsFunc(values, func(value string) bool {
		return slices.ContainsFunc(wordsOf(value, u.Host), func(word string) bool {
			return slices.ContainsFunc(names, func(name string) bool { return contains([]byte(word), name) })
		})
	})
}

// wordsOf are the words of a text, without paths and URLs.
func wordsOf(text, host string) []string {
	words := strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\"'`(),;=<>[]{}?&", r) })
	return slices.DeleteFunc(words, func(word string) bool {
		for i := range len(word) {
			if word[i] == '/' && (i == 0 || !inName(word[i-1])) {
				return true
			}
		}
		return strings.HasPrefix(word, host+"/")
	})
}
