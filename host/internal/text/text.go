// Package text makes texts of guests, clouds and users safe to show in logs,
// Events, errors, labels and terminals. Sizes are bytes of UTF-8.
//
// A rune is invisible if unicode.IsPrint says that it is not printable: control
// characters, line breaks, characters that change the direction of text.
package text

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxQuoted bounds the quotation of a name or a value in an error.
	maxQuoted = 100
	// maxLabel is Kubernetes' limit for the value of a label.
	maxLabel = 63
	// digestDigits is short enough for people to type.
	digestDigits = 12

	more = "..."
)

// Cut returns at most the first most bytes of s, without splitting a character.
// It does not mark the cut: see Line and Quote.
func Cut[T string | []byte](s T, most int) T {
	most = max(most, 0)
	if len(s) <= most {
		return s
	}
	for end := most; end > most-utf8.UTFMax && end >= 0; end-- {
		if utf8.RuneStart(s[end]) {
			return s[:end]
		}
	}
	return s[:most] // it is not UTF-8
}

// Line returns s as one line of at most most bytes, with "..." in place of the
// rest. White space at both ends is dropped, a line break becomes "; ", other
// white space a space, and other invisible or invalid characters a "?".
func Line(s string, most int) string {
	// Invariant M26 (host/SECURITY.md): no terminal control character and no second line passes.
	var b strings.Builder
	for _, r := range strings.TrimSpace(s) {
		if b.Len() > most { // the rest does not fit anyway
			break
		}
		switch {
		case r == '\n':
			b.WriteString("; ")
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case invisible(r) || r == utf8.RuneError:
			b.WriteByte('?')
		default:
			b.WriteRune(r)
		}
	}
	if b.Len() <= most {
		return b.String()
	}
	return Cut(b.String(), most-len(more)) + Cut(more, most)
}

// Quote returns s in quotes, as Go writes it. A long s is cut to its first 100
// bytes, with "..." after the quotes.
func Quote(s string) string {
	short := Cut(s, maxQuoted)
	if len(short) < len(s) {
		return strconv.Quote(short) + more
	}
	return strconv.Quote(s)
}

// Name returns a short and plain s unchanged, any other one in quotes.
func Name(s string) string {
	if quoted := Quote(s); quoted != `"`+s+`"` {
		return quoted
	}
	return s
}

// Escape replaces invisible runes and invalid UTF-8 by Go's escapes and leaves
// the rest of s unchanged, quotes and backslashes included. The result may have
// up to five times as many bytes.
func Escape(s string) string {
	// Invariant M8 (host/SECURITY.md): every message and value of a log, every
	// output and every Event of a guest passes through this function.
	if utf8.ValidString(s) && !strings.ContainsFunc(s, invisible) {
		return s
	}
	out := make([]byte, 0, len(s)+16)
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if part := s[i : i+size]; r == utf8.RuneError && size == 1 || invisible(r) {
			quoted := strconv.Quote(part)
			out = append(out, quoted[1:len(quoted)-1]...)
		} else {
			out = append(out, part...)
		}
		i += size
	}
	return string(out)
}

// Label returns s as the value of a Kubernetes label, perhaps an empty one:
// each invalid character becomes a hyphen, and characters that are invalid at
// an end are dropped.
func Label(s string) string {
	s = strings.Map(func(r rune) rune {
		if alphanumeric(r) || strings.ContainsRune("-_.", r) {
			return r
		}
		return '-'
	}, s)
	return strings.TrimFunc(Cut(s, maxLabel), func(r rune) bool { return !alphanumeric(r) })
}

// Digest returns the first 12 digits of a hexadecimal digest, for messages that
// ask people to type them.
func Digest(digits string) string { return Cut(digits, digestDigits) }

// Config tells of the digest of a configuration, beside that of its module; "" of a
// private one, which has none.
func Config(digits string) string {
	if digits == "" {
		return ""
	}
	return ", configuration sha256:" + Digest(digits)
}

func invisible(r rune) bool { return !unicode.IsPrint(r) }

func alphanumeric(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}
