package credential

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"html"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

// nest encodes as the bytes of how say: at most two encodings, the first of
// which may be of an escaped value, and at most three escapings.
func nest(t testing.TB, secret string, how []byte) string {
	at := func(i, n int) int {
		if i >= len(how) {
			return 0
		}
		return int(how[i]) % n
	}
	escapes := []func(string) string{
		func(s string) string { return s }, url.QueryEscape, url.PathEscape, html.EscapeString,
		func(s string) string { return jsonEscape(s, at(0, 2) == 0) },
		func(s string) string { return strings.ReplaceAll(html.EscapeString(s), "/", "&#x2F;") },
		func(s string) string { return strings.ToLower(url.QueryEscape(s)) },
	}
	around := func(i int) (string, string) { return "abc"[:at(i, 4)], "~?>"[:at(i+1, 4)] }
	encoders := []func(string, int) string{
		func(s string, _ int) string { return s },
		func(s string, i int) string {
			before, after := around(i)
			return []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding}[at(i+2, 4)].EncodeToString([]byte(before + s + after))
		},
		func(s string, _ int) string { return hex.EncodeToString([]byte(s)) },
		func(s string, _ int) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
		func(s string, _ int) string { return mixedCase(hex.EncodeToString([]byte(s))) },
	}
	out := secret
	first, second := at(1, len(encoders)), at(2, len(encoders))
	switch {
	case first == 0 || second == 0 || len(secret) < minNestedBytes:
		if escape := at(3, len(escapes)); escape < 5 && utf8.ValidString(out) {
			out = escapes[escape](out)
		}
		out = encoders[max(first, second)](out, 4)
	case first == 4: // of hexadecimal in mixed case nothing else is an encoding
		out = encoders[second](out, 4)
	default:
		out = encoders[second](encoders[first](out, 4), 7)
	}
	for i := range 3 {
		if escape := at(10+i, len(escapes)); escape != 6 && (escape != 4 || utf8.ValidString(out)) {
			out = escapes[escape](out)
		}
	}
	return out
}

// FuzzScrub: whatever the stated encodings make of a value, on top of each other,
// it is found; and what holds none stays as it is.
func FuzzScrub(f *testing.F) {
	f.Add("hunter2hunter3", "before ", " after", []byte{3})
	f.Add(`pa"ss%41`, `\`, `\u0041`, []byte{0, 1, 1, 2, 1, 2, 3, 2, 1, 0, 1, 4, 3})
	f.Add("aaaa", "aaa", "\r\n", []byte{1})
	f.Add("[scr", "]", "ubbed", []byte{0})
	f.Add("correct horse battery", "", "", []byte{0, 2, 1, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3})
	f.Add("p&a<s>s/w+ord", "%", "", []byte{1, 4, 3, 0, 0, 0, 0, 0, 0, 0, 5, 4, 1})
	f.Fuzz(func(t *testing.T, secret, before, after string, how []byte) {
		s := newTestScrubber(secret)
		if !scrubbable("cloud", []byte(secret)) {
			return
		}
		if twice, ok := s.decoder.text(fullyDecoded(s, secret)); !ok || len(twice) >= minSecretBytes {
			in := before + "|" + nest(t, secret, how) + "|" + after
			if out := s.Scrub([]byte(in)); string(out) == in || bytes.Contains(out, []byte(secret)) {
				t.Fatalf("%q in %q: %q", secret, in, out)
			}
		}
		// Beside each other, without anything between: no escape is looked for.
		for _, form := range []string{secret, std(secret), hex.EncodeToString([]byte(secret)), url.QueryEscape(secret)} {
			in := before + form + after
			if out := s.Scrub([]byte(in)); string(out) == in || bytes.Contains(out, []byte(secret)) {
				t.Fatalf("%q in %q: %q", secret, in, out)
			}
		}
		// Without any of the forms nothing changes.
		if clean := before + after; !mayHold(s, clean) {
			if out := s.Scrub([]byte(clean)); string(out) != clean {
				t.Fatalf("%q is not in %q: %q", secret, clean, out)
			}
		}
	})
}

func fullyDecoded(s *Scrubber, text string) []byte {
	out := []byte(text)
	for range maxDepth {
		decoded, ok := s.decoder.text(out)
		if !ok {
			break
		}
		out = decoded
	}
	return out
}

// mayHold looks for the value the slow way: in all that the text may mean.
func mayHold(s *Scrubber, text string) bool {
	for range maxDepth + 1 {
		for _, v := range s.current[owner{part: "owner0"}] {
			for _, p := range v.patterns {
				if strings.Contains(text, string(p.text)) || p.anyCase && strings.Contains(strings.ToLower(text), string(p.text)) {
					return true
				}
			}
		}
		decoded, _ := s.decoder.text([]byte(text))
		text = string(decoded)
	}
	return false
}
