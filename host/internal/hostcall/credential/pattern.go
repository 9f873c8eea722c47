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

// windowSize is the length of what the index looks up at each position; no
// pattern is shorter.
const windowSize = 4

// Of a long value these are the bytes, from its beginning, that are kept and
// compared: as it is, in one encoding, and in an encoding of an encoding.
const (
	maxPlainBytes   = 1 << 10
	maxEncodedBytes = 512
	maxNestedBytes  = 192
)

// minNestedBytes is the length of the shortest value that is looked for in an
// encoding of an encoding: of what is shorter, too few characters are sure.
const minNestedBytes = 8

// pattern is one way in which a value can stand in data.
type pattern struct {
	text []byte
	// anyCase is set where upper and lower case are the same; text is in lower.
	anyCase bool
	// before and after are how many characters beside the text hold bits of the
	// value, too.
	before, after int
	// rest is how many bytes after the text belong to it: of a long value, the
	// text is the beginning only.
	rest int
	// bracketed is set where the text holds a bracket.
	bracketed bool
	label     string
}

// patternsOf returns the ways in which a value can be written. Escapes are
// decoded before the search as well; those that a server is likely to write are
// here, too, for text that swallows the first bytes of the value when it is
// decoded, as a % before it does. Value has at least windowSize bytes.
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

// encode returns the encodings of what a pattern finds, of its first most bytes:
// in hexadecimal, and in base64 of either alphabet with anything around it.
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

// cut shortens the text of a pattern; what it loses belongs to the pattern still.
func cut(p pattern, most int) pattern {
	if len(p.text) > most {
		p.rest += len(p.text) - most
		p.text = p.text[:most]
	}
	return p
}

// formsOf returns a value, the escaped forms that servers write for it, and its
// decoded form: a value may hold escapes itself, and decoding an answer decodes
// them too.
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

// escapesOf returns s and what servers write for it, each once.
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

// jsonEscape returns s as it stands between the quotes of JSON.
func jsonEscape(s string, forHTML bool) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(forHTML)
	if err := e.Encode(s); err != nil {
		return s // not reached: every string has a JSON form
	}
	return strings.TrimSuffix(strings.TrimPrefix(out.String(), `"`), "\"\n")
}

// base64Core returns those characters of the encoding of what p finds that depend
// on nothing else, when offset bytes (modulo 3) stand before it.
func base64Core(alphabet *base64.Encoding, p pattern, offset int) pattern {
	padded := append(make([]byte, offset, offset+len(p.text)), p.text...)
	text := []byte(alphabet.EncodeToString(padded))
	first := (offset*8 + 5) / 6
	last := len(padded) * 8 / 6
	out := pattern{text: text[first:last], rest: (p.rest*8 + 5) / 6}
	switch {
	case p.before > 0:
		out.before = 3 // the bits of a whole byte, and those that are shared
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
	// filter has a bit for each hash of a window of a pattern.
	filter  [1 << filterBits / 64]uint64
	entries []entry
	// last has, for each hash, the index of the last entry with it, plus one.
	last [1 << tableBits]int32
	// bracketed is set where a pattern holds a bracket, and so may be made up of
	// a mark and what is beside it.
	bracketed bool
}

// entry is a pattern and what it is looked up by: the window that ends at
// text[end].
type entry struct {
	*pattern
	window uint32
	end    int32
	before int32 // the entry before it with the same hash, plus one
}

const (
	filterBits = 18 // 32 KiB, which stays in the processor's cache
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

// choose takes a window of a pattern that few others have: tokens of one kind
// begin or end alike.
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

// windowAt is what stands before data[end], upper and lower case alike.
func windowAt(data []byte, end int) uint32 {
	return binary.LittleEndian.Uint32(data[end-windowSize:end]) | 0x20202020
}

func hashWindow(window uint32) uint32 { return window * 0x9E3779B1 >> (32 - filterBits) }

// find returns where patterns stand in data; neighbouring hits are joined. They
// are in order: a hit holds its window, and windows are looked up in order. It
// ends when there are more than maxSpans.
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

// is reports whether the pattern is this text, of the same length.
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

// join adds a span to those that end before it does.
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
