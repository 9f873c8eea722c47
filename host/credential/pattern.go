package credential

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"html"
	"math/bits"
	"net/url"
	"slices"
	"strings"
)

// windowSize is the length of what the index looks up at each position; no
// pattern is shorter.
const windowSize = 4

// pattern is one way in which a value can stand in data.
type pattern struct {
	text []byte
	// before and after are how many characters of base64 beside the text hold
	// bits of the value, too.
	before, after int
	// rest is how many bytes after the text belong to it: of a long value, the
	// text is the beginning only.
	rest  int
	label string
}

// patternsOf returns the ways in which a value can be written. Escapes are
// decoded before the search as well; those that a server is likely to write are
// here, too, for text that swallows the first bytes of the value when it is
// decoded, as a % before it does. Value has at least windowSize bytes.
func patternsOf(label string, value []byte) []pattern {
	var out []pattern
	add := func(p pattern) {
		if !slices.ContainsFunc(out, func(q pattern) bool { return bytes.Equal(p.text, q.text) }) {
			out = append(out, p)
		}
	}
	for _, text := range escapesOf(string(value)) {
		add(pattern{text: text})
		lower := hex.EncodeToString(text)
		add(pattern{text: []byte(lower)})
		add(pattern{text: []byte(strings.ToUpper(lower))})
		for offset := range 3 {
			add(base64Core(base64.RawStdEncoding, text, offset))
			add(base64Core(base64.RawURLEncoding, text, offset))
		}
	}
	for i := range out {
		out[i].label = label
		out[i].shorten()
	}
	return out
}

// maxPatternBytes bounds what is kept and compared of a value.
const maxPatternBytes = 1 << 10

func (p *pattern) shorten() {
	if len(p.text) > maxPatternBytes {
		p.rest = len(p.text) - maxPatternBytes
		p.text = bytes.Clone(p.text[:maxPatternBytes])
	}
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

// base64Core returns those characters of value's encoding that depend on
// nothing else, when offset bytes (modulo 3) stand before it.
func base64Core(encoding *base64.Encoding, value []byte, offset int) pattern {
	padded := append(make([]byte, offset, offset+len(value)), value...)
	text := []byte(encoding.EncodeToString(padded))
	first := (offset*8 + 5) / 6
	last := len(padded) * 8 / 6
	p := pattern{text: text[first:last]}
	if offset > 0 {
		p.before = 1
	}
	if last < len(text) {
		p.after = 1
	}
	return p
}

// span is a part of data: from start, before end.
type span struct {
	start, end int
	label      string
}

// index finds many patterns in one pass. It is immutable.
type index struct {
	// filter has a bit for each hash of a window that ends a pattern.
	filter   [1 << filterBits / 64]uint64
	patterns []pattern
	// last is the index of the last pattern that ends with a window, plus one;
	// before[i] that of the pattern before i with the same window.
	last   map[uint32]int32
	before []int32
}

const filterBits = 18 // 32 KiB

func newIndex(patterns []pattern) *index {
	x := &index{patterns: patterns, last: make(map[uint32]int32, len(patterns)), before: make([]int32, len(patterns))}
	for i, p := range patterns {
		window := binary.LittleEndian.Uint32(p.text[len(p.text)-windowSize:])
		h := hashWindow(window)
		x.filter[h/64] |= 1 << (h % 64)
		x.before[i] = x.last[window]
		x.last[window] = int32(i + 1)
	}
	return x
}

func hashWindow(window uint32) uint32 {
	return bits.RotateLeft32(window*0x9E3779B1, filterBits) & (1<<filterBits - 1)
}

// find returns where patterns stand in data; neighbouring hits are joined.
func (x *index) find(data []byte) []span {
	var out []span
	for end := windowSize; end <= len(data); end++ {
		window := binary.LittleEndian.Uint32(data[end-windowSize : end])
		h := hashWindow(window)
		if x.filter[h/64]&(1<<(h%64)) == 0 {
			continue
		}
		for i := x.last[window]; i > 0; i = x.before[i-1] {
			p := &x.patterns[i-1]
			if start := end - len(p.text); start >= 0 && bytes.Equal(data[start:end], p.text) {
				out = join(out, p.widen(data, start, end))
			}
		}
	}
	return out
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
