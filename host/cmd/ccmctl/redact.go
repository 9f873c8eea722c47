package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
)

// redactor removes secrets from texts: values that it knows, in all the encodings that
// the manager's own scrubber knows, and what looks like one.
type redactor struct {
	known [][]byte
	exact *credential.Scrubber // nil: to be made
}

// minKnown is how long a value must be that is looked for, in bytes: what is shorter
// stands everywhere.
const minKnown = 6

// know adds a value of a Secret: as a whole, and the texts in it if it is JSON or YAML.
func (r *redactor) know(value []byte) {
	r.exact = nil
	if len(value) >= minKnown {
		r.known = append(r.known, value)
	}
	var document any
	if yaml.Unmarshal(value, &document) == nil {
		r.leaves(document)
	}
}

// leaves adds the texts of a document.
func (r *redactor) leaves(document any) {
	switch x := document.(type) {
	case map[string]any:
		for _, v := range x {
			r.leaves(v)
		}
	case []any:
		for _, v := range x {
			r.leaves(v)
		}
	case string:
		if len(x) >= minKnown {
			r.known = append(r.known, []byte(x))
		}
	}
}

const scrubbed = "[scrubbed]"

// privateKey is the one look that has several lines.
var privateKey = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(-----END [A-Z ]*PRIVATE KEY-----|\z)`)

// looks are what secrets look like in a line that has one of the hints, which are in
// lower case, and what stands in their place.
var looks = []struct {
	hints   []string
	pattern *regexp.Regexp
	mark    string
}{
	// User and password, and the query, of a URL; the query of a path.
	{[]string{"://"}, regexp.MustCompile(`(://)[^/\s"'@]+@`), "${1}" + scrubbed + "@"},
	{[]string{"?"}, regexp.MustCompile(`(/[^\s"'?]*\?)[^\s"']+`), "${1}" + scrubbed},
	{
		[]string{"authorization", "cookie"},
		regexp.MustCompile(`(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)(["']?\s*:\s*).*$`), "${1}${2}" + scrubbed,
	},
	{[]string{"bearer"}, regexp.MustCompile(`(?i)\b(bearer)(\s+|%20|\+)[a-z0-9._~+/=-]{6,}`), "${1} " + scrubbed},
	{[]string{"basic"}, regexp.MustCompile(`\b(Basic)(\s+|%20|\+)[A-Za-z0-9+/=_-]{6,}`), "${1} " + scrubbed},
	{[]string{"eyj"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)?`), scrubbed},
	{[]string{"akia", "asia"}, regexp.MustCompile(`\b(AKIA|ASIA)[0-9A-Z]{16}\b`), scrubbed},
	// NAME=VALUE, NAME: VALUE and "NAME": "VALUE" where the name is that of a secret.
	{
		[]string{"passw", "passphrase", "secret", "token", "key", "authorization", "cookie"},
		regexp.MustCompile(`(?i)((?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|authorization|cookie)` +
			`[a-z0-9_-]*\\?["']?\s*[:=]\s*)(\\?"[^"]*"?|'[^']*'?|[^\s"'{\[,;][^\s,;]*)`), "${1}" + scrubbed,
	},
}

// clean returns a text without secrets.
func (r *redactor) clean(data []byte) []byte {
	if r.exact == nil {
		r.exact = credential.ScrubberOf("secret", r.known...)
	}
	data = privateKey.ReplaceAll(r.exact.Scrub(data), []byte(scrubbed))
	out := make([]byte, 0, len(data))
	for line := range bytes.Lines(data) {
		out = append(out, cleanLine(line)...)
	}
	return out
}

func cleanLine(line []byte) []byte {
	text, ended := bytes.CutSuffix(line, []byte("\n"))
	lower := bytes.ToLower(text)
	for _, look := range looks {
		if slices.ContainsFunc(look.hints, func(hint string) bool { return bytes.Contains(lower, []byte(hint)) }) {
			text = look.pattern.ReplaceAll(text, []byte(look.mark))
		}
	}
	if ended {
		text = append(slices.Clip(text), '\n')
	}
	return text
}

// json returns a document as JSON whose texts have no secrets.
func (r *redactor) json(object any) ([]byte, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var document any
	if err := json.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	data, err = json.MarshalIndent(r.document(document), "", "  ")
	return append(data, '\n'), err
}

func (r *redactor) document(document any) any {
	switch x := document.(type) {
	case map[string]any:
		clean := make(map[string]any, len(x))
		for k, v := range x {
			clean[string(r.clean([]byte(k)))] = r.document(v)
		}
		return clean
	case []any:
		for i := range x {
			x[i] = r.document(x[i])
		}
	case string:
		return string(r.clean([]byte(x)))
	}
	return document
}
