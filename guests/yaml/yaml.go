// Package yaml reads JSON, and the part of YAML that configurations use: block
// and flow mappings and lists, plain and quoted text, and comments. It refuses
// the rest by name and line: anchors and aliases, tags, text over several
// lines, several documents. Accepted input means the same to every YAML reader;
// a fuzz test compares.
//
// Guests need a reader that is small and fast and returns an error for
// unreadable input. ../RATIONALE.md has the measurements.
package yaml

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of a document.
const (
	MaxBytes  = 4 << 20
	MaxDepth  = 32
	MaxFields = 256 // of one mapping

	maxKeyBytes = 1000 // YAML's own limit is 1024
)

// Kind is the kind of a node.
type Kind uint8

// The kinds. Text that YAML readers could take for another kind (true, no, 1e3,
// ~) is Text only in quotes.
const (
	Null Kind = iota
	Bool
	Number
	Text
	Map
	List
)

// String returns the kind for error messages.
func (k Kind) String() string {
	return [...]string{"nothing", "a truth value", "a number", "text", "a mapping", "a list"}[k]
}

// Node is one value of a document.
type Node struct {
	Kind Kind
	// Line counts from 1.
	Line int
	// Value is the original text of Bool, Number and Text, without quotes.
	Value  string
	Fields []Field // of a Map, in order; keys are unique
	Items  []Node  // of a List
}

// Field is one entry of a mapping.
type Field struct {
	Key   string
	Line  int
	Value Node
}

// Error is a mistake in a document, and its line.
type Error struct {
	Line   int
	Reason string
}

// Error returns the line and the reason.
func (e *Error) Error() string { return "line " + strconv.Itoa(e.Line) + ": " + e.Reason }

// Parse reads one document; an empty one is Null. The error is an *Error. The
// nodes keep no reference to data.
func Parse(data []byte) (Node, error) {
	if len(data) > MaxBytes {
		return Node{}, &Error{1, fmt.Sprintf("the document has %d bytes, more than %d", len(data), MaxBytes)}
	}
	p := &parser{}
	if err := p.split(string(data)); err != nil {
		return Node{}, err
	}
	if len(p.lines) == 0 {
		return Node{Line: 1}, nil
	}
	node, err := p.block(p.lines[0].indent, -1, 0)
	if err == nil && p.at < len(p.lines) {
		err = p.fail("this does not fit the lines above: check the indentation")
	}
	if err != nil {
		return Node{}, err
	}
	return node, nil
}

// line is a line with content, without its indentation.
type line struct {
	number, indent int
	text           string
}

type parser struct {
	lines []line
	at    int // the current line; its text shrinks as it is read
}

func (p *parser) fail(format string, args ...any) error {
	number := 1
	if n := min(p.at, len(p.lines)-1); n >= 0 {
		number = p.lines[n].number
	}
	return &Error{number, fmt.Sprintf(format, args...)}
}

// split makes the lines and refuses what is nowhere allowed.
func (p *parser) split(text string) error {
	text = strings.TrimPrefix(text, "\ufeff")
	p.lines = make([]line, 0, strings.Count(text, "\n")+1)
	started := false
	for number := 1; text != ""; number++ {
		var raw string
		raw, text, _ = strings.Cut(text, "\n")
		raw = strings.TrimSuffix(raw, "\r")
		content := strings.TrimLeft(raw, " ")
		l := line{number, len(raw) - len(content), content}
		if reason := refused(raw); reason != "" {
			return &Error{number, reason}
		}
		marker := l.indent == 0 && isMarker(content)
		switch {
		case content == "" || content[0] == '#':
		case marker && (started || content[0] == '.' || !blank(content[3:])):
			return &Error{number, "there is more than one document, or text beside its marker; write one, on lines of its own"}
		case marker:
			started = true
		default:
			started = true
			// Nodes hold parts of this. TinyGo's collector pays for each
			// pointer into an object by the object's size, so the object is a
			// line, not the document.
			l.text = strings.Clone(content)
			p.lines = append(p.lines, l)
		}
	}
	return nil
}

func isMarker(s string) bool {
	return (strings.HasPrefix(s, "---") || strings.HasPrefix(s, "...")) && (len(s) == 3 || s[3] == ' ')
}

// refused names forbidden characters of a line.
func refused(raw string) string {
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '\t':
			return "there is a tab; use spaces, or \\t in double quotes"
		case c < ' ' || c == 0x7f:
			return fmt.Sprintf("there is the control character %#02x; remove it", c)
		case c >= utf8.RuneSelf:
			return refusedRune(raw[i:])
		}
	}
	return ""
}

func refusedRune(s string) string {
	if !utf8.ValidString(s) {
		return "this is not UTF-8"
	}
	for _, r := range s {
		if r < ' ' || (r >= 0x7f && r < 0xa0) || r == 0x2028 || r == 0x2029 || r == 0xfeff || r >= 0xfffe && r <= 0xffff || r == '\t' {
			return fmt.Sprintf("there is the control character %U; remove it", r)
		}
	}
	return ""
}

// blank reports whether only a comment is left of a line.
func blank(rest string) bool {
	trimmed := strings.TrimLeft(rest, " ")
	return trimmed == "" || (trimmed[0] == '#' && len(trimmed) < len(rest))
}
