package main

import (
	"bytes"
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
)

// redactor removes secrets from texts: known values, in all encodings of the
// manager's own scrubber, and texts that look like secrets.
type redactor struct {
	known [][]byte
	exact *credential.Scrubber // nil: not yet built
}

// minKnown is the length of the shortest known value in the search, in bytes:
// shorter ones occur everywhere.
const minKnown = 4

// separators surround values in JSON, YAML, INI and lists.
var separators = regexp.MustCompile("[\\s\"'`,;{}\\[\\]]+|[=:][\\s\"']")

// know adds a value of a Secret: as a whole, and its words, in any syntax. Of
// user:password in base64, as in a Secret of docker, the words are added, too.
func (r *redactor) know(value []byte) {
	r.exact = nil
	r.learn(bytes.TrimSpace(value))
	for _, one := range separators.Split(string(value), -1) {
		r.learn([]byte(one))
		if _, after, found := strings.Cut(one, "="); found { // INI
			r.learn([]byte(after))
		}
		if pair, err := base64.StdEncoding.DecodeString(one); err == nil && utf8.Valid(pair) {
			for half := range bytes.SplitSeq(pair, []byte(":")) {
				r.learn(half)
			}
		}
	}
}

func (r *redactor) learn(value []byte) {
	if len(value) >= minKnown && !slices.Contains(ordinary, string(value)) {
		r.known = append(r.known, value)
	}
}

// ordinary are common words of configurations and logs that are no secret.
var ordinary = []string{"true", "false", "null", "none", "auth", "auths", "username", "password", "https", "http"}

const scrubbed = "[scrubbed]"

// privateKey is the only pattern over several lines.
var privateKey = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(-----END [A-Z ]*PRIVATE KEY-----|\z)`)

// looks are the patterns of secrets in a line with one of the hints, which are
// in lower case, and their replacements.
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
	// NAME=VALUE, NAME: VALUE and "NAME": "VALUE" with a name that suggests a secret.
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
