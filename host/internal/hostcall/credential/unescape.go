package credential

import (
	"bytes"
	"html"
	"math"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// decoder removes the escapes of text that servers reflect: those of JSON, URLs and HTML,
// \xHH, and the line breaks of base64, all in one pass. It is immutable.
type decoder struct {
	// special are the first bytes of escapes.
	special [256]bool
	// letters are the characters for a letter after a backslash, or 0; digits the values of
	// hexadecimal digits, or more than 15.
	letters [256]byte
	digits  [256]uint16
	names   map[string]string
}

// maxNameBytes is the length of the longest known HTML character name, with & and ;.
const maxNameBytes = 12

func newDecoder() *decoder {
	d := &decoder{names: map[string]string{}}
	for _, c := range []byte("\\%&\r\n") {
		d.special[c] = true
	}
	for i, c := range []byte(`"\/'bfnrt`) {
		d.letters[c] = "\"\\/'\b\f\n\r\t"[i]
	}
	for i := range 256 {
		d.digits[i] = 0x100
		if r, ok := hexNumber([]byte{byte(i)}, 0, 1); ok {
			d.digits[i] = uint16(r)
		}
	}
	// The characters that servers escape: ASCII punctuation, and Latin-1.
	for _, name := range strings.Fields(`lt gt amp quot apos nbsp excl num dollar percnt lpar rpar ast plus comma period sol colon semi
		equals quest commat lsqb lbrack bsol rsqb rbrack Hat lowbar grave lcub lbrace verbar vert rcub rbrace Tab NewLine hyphen
		iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute micro para middot
		cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute Ecirc
		Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute
		THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave iacute icirc iuml eth
		ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute thorn yuml`) {
		d.names[name] = html.UnescapeString("&" + name + ";")
	}
	return d
}

// next returns the index of the next possible escape in data[from:], or -1.
func (d *decoder) next(data []byte, from int) int {
	for i := from; i < len(data); i++ {
		if d.special[data[i]] {
			return i
		}
	}
	return -1
}

// decode appends the decoded escape at data[i], and returns its length in data; 0 for none.
func (d *decoder) decode(out, data []byte, i int) ([]byte, int) {
	switch data[i] {
	case '%':
		if r, ok := hexNumber(data, i+1, 2); ok {
			return append(out, byte(r)), 3
		}
	case '\\':
		if i+1 < len(data) && d.letters[data[i+1]] != 0 {
			return append(out, d.letters[data[i+1]]), 2
		}
		return decodeNumber(out, data, i)
	case '&':
		return d.decodeEntity(out, data, i)
	default:
		return decodeLineBreak(out, data, i)
	}
	return out, 0
}

// text returns data without escapes, and whether there were any. No escape is shorter than
// its text.
func (d *decoder) text(data []byte) ([]byte, bool) {
	var scratch []byte
	var out []byte
	n, done := 0, 0
	for i := d.next(data, 0); i >= 0; i = d.next(data, i) {
		decoded, width := d.decode(scratch[:0], data, i)
		if width == 0 {
			i++
			continue
		}
		if out == nil {
			out = make([]byte, len(data))
		}
		n += copy(out[n:], data[done:i])
		n += copy(out[n:], decoded)
		i, n = d.simple(out, data, i+width, n)
		done, scratch = i, decoded
	}
	if done == 0 {
		return nil, false
	}
	n += copy(out[n:], data[done:])
	return out[:n], true
}

// simple decodes directly following escapes of the shortest kinds, which may fill megabytes.
// It returns its positions in data and in out.
func (d *decoder) simple(out, data []byte, i, n int) (int, int) {
	for i+2 < len(data) {
		switch data[i] {
		case '\\':
			c := d.letters[data[i+1]]
			if c == 0 {
				return i, n
			}
			out[n] = c
			i += 2
		case '%':
			c := d.digits[data[i+1]]<<4 | d.digits[data[i+2]]
			if c > 0xff {
				return i, n
			}
			out[n] = byte(c)
			i += 3
		default:
			return i, n
		}
		n++
	}
	return i, n
}

// spans translates spans of the text back to spans of data, in order and apart. An escape is
// in a span as a whole or not at all.
func (d *decoder) spans(data []byte, text []span) []span {
	out := make([]span, len(text))
	w := walker{decoder: d, data: data}
	w.advance()
	for i, s := range text {
		out[i] = span{w.start(s.start), w.end(s.end), s.label}
	}
	return out
}

// walker walks data and its text in parallel.
type walker struct {
	*decoder
	data []byte
	// The current escape: data[at:after] decodes to text[from:to].
	at, after, from, to int
	// The end of the previous escape, in data and in text.
	dataEnd, textEnd int
	scratch          []byte
}

// advance goes to the next escape, or to the end.
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

// end excludes a following escape with empty text.
func (w *walker) end(position int) int {
	for w.to <= position && w.from < position {
		w.advance()
	}
	if w.from < position {
		return w.after
	}
	return w.dataEnd + position - w.textEnd
}

// decodeNumber reads \xHH and \uXXXX, and a surrogate pair of the latter.
func decodeNumber(out, data []byte, i int) ([]byte, int) {
	if i+1 == len(data) {
		return out, 0
	}
	switch data[i+1] {
	case 'x':
		if r, ok := hexNumber(data, i+2, 2); ok {
			return append(out, byte(r)), 4
		}
	case 'u':
		return decodeUnicode(out, data, i)
	}
	return out, 0
}

// decodeUnicode reads \uXXXX, or a surrogate pair of them.
func decodeUnicode(out, data []byte, i int) ([]byte, int) {
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

// hexNumber reads that many hexadecimal digits of data from i on.
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

// decodeEntity reads &name; and &#N;.
func (d *decoder) decodeEntity(out, data []byte, i int) ([]byte, int) {
	if i+1 == len(data) || data[i+1] < '#' || data[i+1] == '&' {
		return out, 0
	}
	end := bytes.IndexByte(data[i:min(len(data), i+maxNameBytes)], ';')
	if end < 3 {
		return out, 0
	}
	name := data[i+1 : i+end]
	if name[0] != '#' {
		text := d.names[string(name)]
		if text == "" {
			return out, 0
		}
		return append(out, text...), end + 1
	}
	r, ok := entityNumber(name[1:])
	if !ok {
		return out, 0
	}
	return utf8.AppendRune(out, r), end + 1
}

// entityNumber reads N, or xH in hexadecimal.
func entityNumber(digits []byte) (rune, bool) {
	if digits[0]|0x20 == 'x' {
		r, ok := hexNumber(digits, 1, len(digits)-1)
		return r, ok && len(digits) > 1
	}
	var n rune
	for _, c := range digits {
		if c < '0' || c > '9' || n > utf8.MaxRune {
			return 0, false
		}
		n = 10*n + rune(c-'0')
	}
	return n, true
}

// decodeLineBreak reads a line break in base64 with the next line's indentation: its text is
// empty.
func decodeLineBreak(out, data []byte, i int) ([]byte, int) {
	after := i + 1
	if data[i] == '\r' {
		if after == len(data) || data[after] != '\n' {
			return out, 0
		}
		after++
	}
	for most := after + maxIndentation; after < min(len(data), most) && (data[after] == ' ' || data[after] == '\t'); {
		after++
	}
	if i == 0 || after >= len(data) || !isBase64(data[i-1]) || !isBase64(data[after]) {
		return out, 0
	}
	return out, after - i
}

// maxIndentation bounds the indentation of base64 lines.
const maxIndentation = 16
