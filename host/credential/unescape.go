package credential

import (
	"bytes"
	"html"
	"math"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// escaping is one way of escaping bytes in text.
type escaping struct {
	// next returns the index of what may be the next escape in data[from:], or
	// a negative number.
	next func(data []byte, from int) int
	// decode appends what the escape at data[i] stands for, and returns how
	// many bytes of data it has; 0 when it is none.
	decode func(out, data []byte, i int) ([]byte, int)
}

// escapings are what servers do with text that they reflect.
func escapings() []escaping {
	return []escaping{
		{next: nextByte('\\'), decode: decodeBackslash},
		{next: nextByte('%'), decode: decodePercent},
		{next: nextByte('&'), decode: decodeEntity},
		{next: nextLineBreak, decode: decodeLineBreak},
	}
}

// text returns data without escapes, and whether there was one.
func (e escaping) text(data []byte) ([]byte, bool) {
	var out, scratch []byte
	done := 0
	for i := e.next(data, 0); i >= 0; {
		decoded, width := e.decode(scratch[:0], data, i)
		if width == 0 {
			i = e.next(data, i+1)
			continue
		}
		if out == nil {
			out = make([]byte, 0, len(data))
		}
		out = append(append(out, data[done:i]...), decoded...)
		done, scratch = i+width, decoded
		i = e.next(data, done)
	}
	if done == 0 {
		return nil, false
	}
	return append(out, data[done:]...), true
}

// spans translates spans of the text back to those of data. They are in order
// and apart. An escape is in a span as a whole or not at all.
func (e escaping) spans(data []byte, text []span) []span {
	out := make([]span, len(text))
	w := walker{escaping: e, data: data}
	w.advance()
	for i, s := range text {
		out[i] = span{w.start(s.start), w.end(s.end), s.label}
	}
	return out
}

// walker goes through data and its text side by side.
type walker struct {
	escaping
	data []byte
	// The escape at hand: data[at:after] stands for text[from:to].
	at, after, from, to int
	// The end of the escape before it, in data and in text.
	dataEnd, textEnd int
	scratch          []byte
}

// advance goes to the next escape, or behind everything.
func (w *walker) advance() {
	w.dataEnd, w.textEnd = w.after, w.to
	for i := w.next(w.data, w.dataEnd); i >= 0; i = w.next(w.data, i+1) {
		decoded, width := w.decode(w.scratch[:0], w.data, i)
		if width > 0 {
			w.at, w.after = i, i+width
			w.from = w.textEnd + i - w.dataEnd
			w.to, w.scratch = w.from+len(decoded), decoded
			return
		}
	}
	w.from, w.to = math.MaxInt, math.MaxInt
}

func (w *walker) start(position int) int {
	for w.to <= position {
		w.advance()
	}
	if w.from <= position {
		return w.at
	}
	return w.dataEnd + position - w.textEnd
}

func (w *walker) end(position int) int {
	for w.to <= position {
		w.advance()
	}
	if w.from < position {
		return w.after
	}
	return w.dataEnd + position - w.textEnd
}

func nextByte(c byte) func([]byte, int) int {
	return func(data []byte, from int) int {
		if i := bytes.IndexByte(data[from:], c); i >= 0 {
			return from + i
		}
		return -1
	}
}

// decodeBackslash reads the escapes of JSON, and \xHH of other languages.
func decodeBackslash(out, data []byte, i int) ([]byte, int) {
	if i+1 >= len(data) {
		return out, 0
	}
	const letters, meanings = `"\/'bfnrt`, "\"\\/'\b\f\n\r\t"
	c := data[i+1]
	if at := strings.IndexByte(letters, c); at >= 0 {
		return append(out, meanings[at]), 2
	}
	if c == 'x' {
		if r, ok := hexNumber(data, i+2, 2); ok {
			return append(out, byte(r)), 4
		}
	}
	if c != 'u' {
		return out, 0
	}
	r, ok := hexNumber(data, i+2, 4)
	if !ok {
		return out, 0
	}
	if utf16.IsSurrogate(r) && bytes.HasPrefix(data[i+6:], []byte(`\u`)) {
		if low, ok := hexNumber(data, i+8, 4); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return utf8.AppendRune(out, pair), 12
			}
		}
	}
	return utf8.AppendRune(out, r), 6
}

// hexNumber reads digits hexadecimal digits of data from i on.
func hexNumber(data []byte, i, digits int) (rune, bool) {
	if i+digits > len(data) {
		return 0, false
	}
	var n rune
	for _, c := range data[i : i+digits] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		n = n<<4 | rune(c)
	}
	return n, true
}

func decodePercent(out, data []byte, i int) ([]byte, int) {
	r, ok := hexNumber(data, i+1, 2)
	if !ok {
		return out, 0
	}
	return append(out, byte(r)), 3
}

// maxEntityBytes bounds the references of HTML that are decoded; the
// characters that servers escape have shorter ones.
const maxEntityBytes = 12

func decodeEntity(out, data []byte, i int) ([]byte, int) {
	window := data[i:min(len(data), i+maxEntityBytes)]
	end := bytes.IndexByte(window, ';')
	if end < 0 {
		return out, 0
	}
	entity := string(window[:end+1])
	decoded := html.UnescapeString(entity)
	if decoded == entity {
		return out, 0
	}
	return append(out, decoded...), len(entity)
}

// Base64 is often broken into lines.

func nextLineBreak(data []byte, from int) int {
	i := bytes.IndexByte(data[from:], '\n')
	if i > 0 && data[from+i-1] == '\r' {
		i--
	}
	if i < 0 {
		return i
	}
	return from + i
}

func decodeLineBreak(out, data []byte, i int) ([]byte, int) {
	width := 1
	if data[i] == '\r' {
		width = 2
	}
	after := i + width
	if i == 0 || after >= len(data) || !isBase64(data[i-1]) || !isBase64(data[after]) {
		return out, 0
	}
	return out, width
}
