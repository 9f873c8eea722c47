package shadow

import (
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of texts, in bytes.
const (
	maxObjectText = 128
	maxFieldText  = 160
	maxKeyText    = 64
	maxValueText  = 80
	maxErrorText  = 160
	maxReasonText = 512
	maxReportText = 1000 // that of a Kubernetes Event is 1024
)

// cut returns at most the first n bytes, without splitting a character, and
// says so when it left something away.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const more = "..."
	for n -= len(more); n > 0 && !utf8.RuneStart(s[n]); n-- {
	}
	return s[:n] + more
}

// printable makes one line of at most n bytes of a text that others wrote.
func printable(s string, n int) string {
	// What is cut off need not be looked at; a character has 4 bytes at most.
	if len(s) > n+utf8.UTFMax {
		s = s[:n+utf8.UTFMax]
	}
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	return cut(s, n)
}

// quoted is printable, in quotes, so that spaces at the ends can be seen.
func quoted(s string, n int) string {
	return strconv.Quote(printable(s, n-2))
}

// place is a URL without what may hold a secret: user, query and fragment.
func place(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "a URL that cannot be read"
	}
	return printable(u.Scheme+"://"+u.Host+u.EscapedPath(), maxFieldText)
}
