package cloudconf

import (
	"errors"
	"fmt"
	"strings"
)

// entry is one line "key = value", read as gcfg does, which users of cloud.conf
// know.
type entry struct {
	line                     int
	section, subsection, key string // section and key in lower case
	value                    string
	blank                    bool // a key without "=": true for a switch
	header                   bool // the section's header, without a key
}

// The bounds of a file.
const (
	maxBytes   = 256 << 10
	maxEntries = 4096
	maxName    = 64   // bytes of a section's name, and of a key
	maxValue   = 4096 // bytes of a value, and of a class's name
)

// readINI calls f with each header and each entry, in order. Its errors name
// the line and never quote the text, which may be a misplaced secret.
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

// reader reads logical lines: a backslash at the end of a line continues a
// value.
type reader struct {
	rest                string
	line, lines         int // the line's number, and how many physical lines it took
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
	return strings.ReplaceAll(line, "\r", "")
}

// entry parses the line; ok is false if it holds no entry.
func (r *reader) entry() (e entry, ok bool, err error) {
	e.line = r.line
	text := strings.TrimSpace(r.text)
	switch {
	case text == "" || text[0] == '#' || text[0] == ';':
		return e, false, nil
	case text[0] == '[':
		err = r.header(text)
		e.section, e.subsection, e.header = r.section, r.subsection, true
		return e, err == nil, err
	case r.section == "":
		return e, false, errors.New("this stands before the first [section]")
	}
	key, value, found := strings.Cut(text, "=")
	if !found {
		key, _, _ = strings.Cut(key, "#")
		key, _, _ = strings.Cut(key, ";")
	}
	e.section, e.subsection, e.key = r.section, r.subsection, strings.ToLower(strings.TrimSpace(key))
	if !isName(e.key) {
		return e, false, errors.New("no key is here: write key = value, or # before a comment")
	}
	if e.blank = !found; !e.blank {
		e.value, err = r.value(value)
	}
	if len(e.value) > maxValue {
		err = fmt.Errorf("[%s] %s: a value of %d bytes, the most is %d", e.section, e.key, len(e.value), maxValue)
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
	if !ok || !isName(name) || rest != "" && rest[0] != '#' && rest[0] != ';' || len(subsection) > maxValue || strings.Contains(subsection, `\`) {
		return errors.New(`this is no section: write [Name] or [Name "other name"]`)
	}
	r.section, r.subsection = name, subsection
	return nil
}

// value reads the text after "=", quoted or not, up to a comment.
func (r *reader) value(text string) (string, error) {
	var b strings.Builder
	trimmed, quoted := 0, false // length of the text that is not trimmed
	text = strings.TrimLeft(text, " \t")
	for i := 0; ; i++ {
		if i >= len(text) {
			if quoted {
				return "", errors.New(`a closing " is missing`)
			}
			return b.String()[:trimmed], nil
		}
		c := text[i]
		switch {
		case c == '\\' && i+1 == len(text):
			text, i, trimmed = r.physical(), -1, b.Len()
		case c == '\\':
			i++
			c, ok := unescape(text[i])
			if !ok {
				return "", errors.New(`unknown behind \: write \\ \" \n or \t`)
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

// isName wants a letter, followed by letters, digits and "-".
func isName(s string) bool {
	if len(s) > maxName {
		return false
	}
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return s != ""
}
