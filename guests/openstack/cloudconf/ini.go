package cloudconf

import (
	"fmt"
	"strings"
)

// entry is one line "key = value" of a file as gcfg, which users of
// cloud.conf know, reads it.
type entry struct {
	line                     int
	section, subsection, key string // section and key in lower case
	value                    string
	blank                    bool // a key without "=": true for a switch
}

// maxBytes and maxEntries bound a file.
const (
	maxBytes   = 256 << 10
	maxEntries = 4096
)

// readINI calls f with each entry, in order. Its errors name the line.
func readINI(text string, f func(entry) error) error {
	if len(text) > maxBytes {
		return fmt.Errorf("the file has %d bytes, the most is %d", len(text), maxBytes)
	}
	r := reader{rest: strings.TrimPrefix(text, "\ufeff")}
	for count := 0; r.next(); {
		e, ok, err := r.entry()
		if err == nil && ok {
			if count++; count > maxEntries {
				err = fmt.Errorf("more than %d entries", maxEntries)
			} else {
				err = f(e)
			}
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", e.line, err)
		}
	}
	return nil
}

// reader goes through a file by logical lines: a backslash at the end of a
// line continues a value.
type reader struct {
	rest                string
	line, lines         int // the line, and how many lines it took
	text                string
	section, subsection string
}

// next reads one physical line.
func (r *reader) next() bool {
	if r.rest == "" {
		return false
	}
	r.line += max(r.lines, 1)
	r.lines = 0
	r.text = r.physical()
	return true
}

func (r *reader) physical() string {
	line, rest, _ := strings.Cut(r.rest, "\n")
	r.rest = rest
	r.lines++
	return strings.TrimSuffix(line, "\r")
}

// entry understands the line; ok is false when it holds no entry.
func (r *reader) entry() (e entry, ok bool, err error) {
	e.line = r.line
	text := strings.TrimSpace(r.text)
	switch {
	case text == "" || text[0] == '#' || text[0] == ';':
		return e, false, nil
	case text[0] == '[':
		return e, false, r.header(text)
	case r.section == "":
		return e, false, fmt.Errorf("%q stands before the first [section]", cut(text))
	}
	key, value, found := strings.Cut(text, "=")
	if !found {
		key, _, _ = strings.Cut(key, "#")
		key, _, _ = strings.Cut(key, ";")
	}
	e.section, e.subsection, e.key = r.section, r.subsection, strings.ToLower(strings.TrimSpace(key))
	if !isName(e.key) {
		return e, false, fmt.Errorf("%q is not a key: write key = value", cut(text))
	}
	if e.blank = !found; !e.blank {
		e.value, err = r.value(value)
	}
	return e, err == nil, err
}

// header reads [section] and [section "subsection"].
func (r *reader) header(text string) error {
	name, rest, ok := strings.Cut(text[1:], "]")
	subsection := ""
	if before, quoted, found := strings.Cut(text[1:], `"`); found && len(before) < len(name) {
		name = before
		if subsection, rest, ok = strings.Cut(quoted, `"`); ok {
			rest, ok = strings.CutPrefix(strings.TrimSpace(rest), "]")
		}
	}
	rest = strings.TrimSpace(rest)
	name = strings.ToLower(strings.TrimSpace(name))
	if !ok || !isName(name) || rest != "" && rest[0] != '#' && rest[0] != ';' {
		return fmt.Errorf(`%q is not a section: write [Name] or [Name "other name"]`, cut(text))
	}
	r.section, r.subsection = name, subsection
	return nil
}

// value reads what stands behind "=": text and quoted text, up to a comment.
func (r *reader) value(text string) (string, error) {
	var b strings.Builder
	trimmed, quoted := 0, false // what is before trimmed stays
	text = strings.TrimLeft(text, " \t")
	for i := 0; ; i++ {
		if i >= len(text) {
			if quoted {
				return "", fmt.Errorf(`a closing " is missing`)
			}
			return b.String()[:trimmed], nil
		}
		c := text[i]
		switch {
		case c == '\\' && i+1 == len(text):
			if r.rest == "" {
				return "", fmt.Errorf("nothing follows the \\ at the end of the file")
			}
			text, i = r.physical(), -1
		case c == '\\':
			i++
			c, ok := unescape(text[i])
			if !ok {
				return "", fmt.Errorf(`\%c is unknown: write \\ \" \n or \t`, text[i])
			}
			b.WriteByte(c)
			trimmed = b.Len()
		case c == '"':
			quoted = !quoted
			trimmed = b.Len()
		case !quoted && (c == '#' || c == ';'):
			return b.String()[:trimmed], nil
		default:
			b.WriteByte(c)
			if quoted || c != ' ' && c != '\t' {
				trimmed = b.Len()
			}
		}
	}
}

func unescape(c byte) (byte, bool) {
	switch c {
	case '\\', '"':
		return c, true
	case 'n':
		return '\n', true
	case 't':
		return '\t', true
	case 'b':
		return '\b', true
	}
	return 0, false
}

// isName wants a letter, then letters, digits and "-".
func isName(s string) bool {
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return s != ""
}

// cut shortens what is shown: a line may hold a secret that stands at a wrong
// place, so only the beginning of its key is.
func cut(text string) string {
	text, _, _ = strings.Cut(text, "=")
	if len(text) > 30 {
		text = text[:30] + "..."
	}
	return text
}
