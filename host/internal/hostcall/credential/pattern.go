package credential

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strings"
)

// windowSize is the length of the index's lookups; no pattern is shorter.
const windowSize = 4

// The bytes kept of a long value's beginning for the comparison: unencoded, in one encoding,
// and in two nested encodings.
const (
	maxPlainBytes   = 1 << 10
	maxEncodedBytes = 512
	maxNestedBytes  = 192
)

// minNestedBytes is the length of the shortest value that is searched in nested encodings:
// of a shorter one too few characters are certain.
const minNestedBytes = 8

// pattern is one written form of a value.
type pattern struct {
	text []byte
	// anyCase: case is ignored, and text is in lower case.
	anyCase bool
	// before and after count the characters beside the text that hold bits of the value.
	before, after int
	// rest counts the bytes after the text that belong to it: of a long value, text is only the
	// beginning.
	rest int
	// bracketed: the text holds a bracket.
	bracketed bool
	label     string
}

// patternsOf returns the written forms of a value. Escapes are decoded before the search as
// well; likely escaped forms are included for text that swallows the value's first bytes
// when decoded, as after a %. Value has at least windowSize bytes.
func patternsOf(d *decoder, label string, value []byte) []*pattern {
	var out []*pattern
	add := func(p pattern) {
		if !slices.ContainsFunc(out, func(q *pattern) bool { return bytes.Equal(p.text, q.text) }) {
			p.label, p.bracketed = label, bytes.ContainsAny(p.text, "[]")
			out = append(out, &p)
		}
	}
	for _, text := range formsOf(d, value) {
		add(pattern{text: text[:min(len(text), maxPlainBytes)], rest: max(0, len(text)-maxPlainBytes)})
		for _, p := range encode(pattern{text: text}, maxEncodedBytes) {
			add(p)
		}
	}
	if len(value) < minNestedBytes {
		return out
	}
	upper := strings.ToUpper(hex.EncodeToString(value))
	for _, inner := range append(encode(pattern{text: value}, maxNestedBytes), cut(pattern{text: []byte(upper)}, maxNestedBytes)) {
		for _, p := range encode(inner, maxNestedBytes) {
			add(p)
		}
	}
	return out
}

// encode returns the encodings of a pattern's first most bytes: in hexadecimal, and in
// base64 of either alphabet with anything around it.
func encode(p pattern, most int) []pattern {
	p = cut(p, most)
	out := []pattern{{
		text: []byte(hex.EncodeToString(p.text)), anyCase: true,
		before: 2 * p.before, after: 2 * p.after, rest: 2 * p.rest,
	}}
	for offset := range 3 {
		for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			out = append(out, base64Core(alphabet, p, offset))
		}
	}
	return out
}

// cut shortens a pattern's text; the remaining bytes still belong to the pattern.
func cut(p pattern, most int) pattern {
	if len(p.text) > most {
		p.rest += len(p.text) - most
		p.text = p.text[:most]
	}
	return p
}

// formsOf returns a value, its escaped forms, and its decoded form: a value may contain
// escapes itself, which the decoding of an answer decodes as well.
func formsOf(d *decoder, value []byte) [][]byte {
	out := escapesOf(string(value))
	for range maxDepth {
		text, found := d.text(value)
		if !found || len(text) < windowSize {
			break
		}
		value = text
		out = append(out, text)
	}
	return out
}

// escapesOf returns s and its usual escaped forms, each once.
func escapesOf(s string) [][]byte {
	var out [][]byte
	for _, text := range []string{
		s, strings.ReplaceAll(s, " ", "+"),
		url.QueryEscape(s), url.PathEscape(s), escapeQuery(s),
		html.EscapeString(s), jsonEscape(s, false), jsonEscape(s, true),
	} {
		if !slices.ContainsFunc(out, func(b []byte) bool { return string(b) == text }) {
			out = append(out, []byte(text))
		}
	}
	return out
}

// jsonEscape returns s as written between the quotes of JSON.
func jsonEscape(s string, forHTML bool) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(forHTML)
	if err := e.Encode(s); err != nil {
		return s // unreachable: every string has a JSON form
	}
	return strings.TrimSuffix(strings.TrimPrefix(out.String(), `"`), "\"\n")
}

// base64Core returns the characters of a pattern's base64 form that do not depend on its
// surroundings, with offset bytes (modulo 3) before it.
func base64Core(alphabet *base64.Encoding, p pattern, offset int) pattern {
	padded := append(make([]byte, offset, offset+len(p.text)), p.text...)
	text := []byte(alphabet.EncodeToString(padded))
	first := (offset*8 + 5) / 6
	last := len(padded) * 8 / 6
	out := pattern{text: text[first:last], rest: (p.rest*8 + 5) / 6}
	switch {
	case p.before > 0:
		out.before = 3 // the bits of a whole byte, and the shared ones
	case offset > 0:
		out.before = 1
	}
	switch {
	case p.after > 0:
		out.after = 3
	case last < len(text):
		out.after = 1
	}
	return out
}

// span is a part of data: from start, before end.
type span struct {
	start, end int
	label      string
}

// index finds many patterns in one pass. It is immutable.
type index struct {
	// filter has a bit for each hash of a pattern's window.
	filter  [1 << filterBits / 64]uint64
	entries []entry
	// last has, for each hash, the index of its last entry, plus one.
	last [1 << tableBits]int32
	// bracketed: a pattern holds a bracket, and so may arise from a mark and its neighbours.
	bracketed bool
}

// entry is a pattern with its lookup window, which ends at text[end].
type entry struct {
	*pattern
	window uint32
	end    int32
	before int32 // the previous entry with the same hash, plus one
}

const (
	filterBits = 18 // 32 KiB, fits the processor's cache
	tableBits  = 16
)

func newIndex(patterns []*pattern) *index {
	x := &index{entries: make([]entry, 0, len(patterns))}
	for _, p := range patterns {
		e := x.choose(p)
		h := hashWindow(e.window)
		x.filter[h/64] |= 1 << (h % 64)
		e.before = x.last[h>>(filterBits-tableBits)]
		x.entries = append(x.entries, e)
		x.last[h>>(filterBits-tableBits)] = int32(len(x.entries))
		x.bracketed = x.bracketed || p.bracketed
	}
	return x
}

// choose takes a window of the pattern that is rare in others: tokens of one kind begin or
// end alike.
func (x *index) choose(p *pattern) entry {
	const enough = 2
	best, least := entry{}, len(x.entries)+1
	for try := range 8 {
		end := len(p.text) - try*(len(p.text)-windowSize)/7
		e := entry{pattern: p, window: windowAt(p.text, end), end: int32(end)}
		n := 0
		for i := x.last[hashWindow(e.window)>>(filterBits-tableBits)]; i > 0 && n < least; i = x.entries[i-1].before {
			n++
		}
		if n < least {
			best, least = e, n
		}
		if least < enough {
			break
		}
	}
	return best
}

// windowAt is the window before data[end], in lower case.
func windowAt(data []byte, end int) uint32 {
	return binary.LittleEndian.Uint32(data[end-windowSize:end]) | 0x20202020
}

func hashWindow(window uint32) uint32 { return window * 0x9E3779B1 >> (32 - filterBits) }

// find returns the positions of patterns in data, in order, with neighbouring hits joined: a
// hit holds its window, and windows are looked up in order. It stops at more than maxSpans.
func (x *index) find(data []byte) []span {
	var out []span
	for end := windowSize; end <= len(data) && len(out) <= maxSpans; end++ {
		window := windowAt(data, end)
		h := hashWindow(window)
		if x.filter[h/64]&(1<<(h%64)) == 0 {
			continue
		}
		for i := x.last[h>>(filterBits-tableBits)]; i > 0; i = x.entries[i-1].before {
			e := &x.entries[i-1]
			if e.window != window {
				continue
			}
			if start := end - int(e.end); start >= 0 && start+len(e.text) <= len(data) && e.is(data[start:start+len(e.text)]) {
				out = join(out, e.widen(data, start, start+len(e.text)))
			}
		}
	}
	return out
}

// is reports whether the text equals the pattern's.
func (p *pattern) is(text []byte) bool {
	if p.anyCase {
		return bytes.EqualFold(text, p.text)
	}
	return bytes.Equal(text, p.text)
}

// widen adds the neighbours that hold bits of the value.
func (p *pattern) widen(data []byte, start, end int) span {
	for i := 0; i < p.before && start > 0 && isBase64(data[start-1]); i++ {
		start--
	}
	end = min(end+p.rest, len(data))
	for i := 0; i < p.after && end < len(data) && isBase64(data[end]); i++ {
		end++
	}
	return span{start, end, p.label}
}

// join adds a span to spans that end before it does.
func join(spans []span, s span) []span {
	for len(spans) > 0 && spans[len(spans)-1].end >= s.start {
		last := spans[len(spans)-1]
		if last.start <= s.start {
			s.label = last.label
		}
		s.start, s.end = min(s.start, last.start), max(s.end, last.end)
		spans = spans[:len(spans)-1]
	}
	return append(spans, s)
}

func isBase64(c byte) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' ||
		c == '+' || c == '/' || c == '-' || c == '_'
}
