package hostfunc

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// cut shortens s to at most most bytes without splitting a character.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// escape replaces what is not printable (control characters, line breaks,
// characters that change the direction of text, bytes that are not UTF-8) by
// Go's escapes, so that a guest can neither forge lines of a log nor command
// the terminal that shows it.
func escape(s string) string {
	// Invariant M8 (host/SECURITY.md): no message and no value of a log, no output and no Event of a
	// guest is written but by way of this.
	if !strings.ContainsFunc(s, unprintable) {
		return s
	}
	out := make([]byte, 0, len(s)+16)
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			out = append(out, `\x`...)
			out = append(out, "0123456789abcdef"[s[i]>>4], "0123456789abcdef"[s[i]&15])
		case unprintable(r):
			quoted := strconv.AppendQuoteRune(nil, r)
			out = append(out, quoted[1:len(quoted)-1]...)
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return string(out)
}

// unprintable counts U+FFFD, too: it may stand for a byte that is not UTF-8.
func unprintable(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
