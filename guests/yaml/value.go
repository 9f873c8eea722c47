package yaml

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// inline reads the value at the start of the current line's text and leaves the
// rest. Only a flow collection continues in the next lines, which must be
// indented further than parent.
func (p *parser) inline(parent, depth int) (Node, error) {
	if c := p.lines[p.at].text[0]; c == '[' || c == '{' {
		return p.flow(parent, depth)
	}
	return p.scalar(false)
}

// scalar reads a quoted or plain text.
func (p *parser) scalar(inFlow bool) (Node, error) {
	l := &p.lines[p.at]
	node := Node{Kind: Text, Line: l.number}
	var err error
	if l.text[0] == '"' || l.text[0] == '\'' {
		node.Value, l.text, err = p.quoted(l.text)
		return node, err
	}
	if reason := notPlain(l.text, inFlow); reason != "" {
		return node, p.fail("%s: %q; put text into quotes", reason, excerpt(l.text))
	}
	end := plainEnd(l.text, inFlow)
	if end < len(l.text) && l.text[end] == ':' {
		return node, p.fail("a second colon, or one without a space behind its value, in %q; put text into quotes", excerpt(l.text))
	}
	node.Value, l.text = strings.TrimRight(l.text[:end], " "), l.text[end:]
	node.Kind = kindOf(node.Value)
	if node.Kind == Null {
		node.Value = ""
	}
	return node, nil
}

// notPlain says why text cannot begin a plain value.
func notPlain(text string, inFlow bool) string {
	switch text[0] {
	case '&', '*':
		return "anchors and aliases are not supported"
	case '!':
		return "tags are not supported"
	case '|', '>':
		return "text over several lines is not supported"
	case ',', ']', '}', '#', '%', '@', '`':
		return "a value cannot begin like this"
	case '-', '?', ':':
		if len(text) == 1 || inFlow && text[0] == ':' || strings.IndexByte(" ,[]{}", text[1]) >= 0 {
			return "a value cannot begin like this"
		}
	}
	return ""
}

// plainEnd returns the end of plain text: at a comment with the space before
// it, at a colon that ends a key, at the line's end, and in a flow collection
// at its signs.
func plainEnd(text string, inFlow bool) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ':':
			if i+1 == len(text) || text[i+1] == ' ' || inFlow && strings.IndexByte(",[]{}", text[i+1]) >= 0 {
				return i
			}
		case '#':
			if i > 0 && text[i-1] == ' ' {
				return i - 1
			}
		case ',', '[', ']', '{', '}', '?':
			if inFlow {
				return i
			}
		}
	}
	return len(text)
}

// kindOf is the kind that YAML 1.1 and 1.2 readers could see in plain text.
func kindOf(s string) Kind {
	if s == "" || s == "~" {
		return Null
	}
	if c := s[0]; c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' {
		return numberOrText(s)
	}
	if len(s) > 5 {
		return Text
	}
	switch s {
	case "null", "Null", "NULL":
		return Null
	}
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "y", "n":
		return Bool
	}
	return Text
}

func numberOrText(s string) Kind {
	s = strings.ReplaceAll(s, "_", "")
	if strings.Count(s, ".") > 1 { // an address, quickly
		return Text
	}
	digits := strings.TrimLeft(s, "+-")
	if _, err := strconv.ParseFloat(digits, 64); err == nil || isRange(err) {
		return Number
	}
	if _, err := strconv.ParseInt(digits, 0, 64); err == nil || isRange(err) {
		return Number
	}
	switch strings.ToLower(digits) {
	case ".inf", ".nan":
		return Number
	}
	return Text
}

func isRange(err error) bool { return errors.Is(err, strconv.ErrRange) }

// quoted reads quoted text at the start of text.
func (p *parser) quoted(text string) (value, rest string, err error) {
	quote := text[0]
	end := 1
	for ; end < len(text) && text[end] != quote; end++ {
		if quote == '"' && text[end] == '\\' {
			return p.escaped(text, end)
		}
	}
	if end == len(text) {
		return "", "", p.fail("the quote is not closed on its line")
	}
	if quote == '\'' && end+1 < len(text) && text[end+1] == quote {
		more, rest, err := p.quoted(text[end+1:])
		return text[1:end] + "'" + more, rest, err
	}
	return text[1:end], text[end+1:], nil
}

// escaped reads double-quoted text with a backslash, the first at from.
func (p *parser) escaped(text string, from int) (value, rest string, err error) {
	b := []byte(text[1:from])
	for i := from; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			return string(b), text[i+1:], nil
		case '\\':
			r, size := unescape(text[i+1:])
			if size == 0 {
				return "", "", p.fail("the escape in %q is not supported: use \\\" \\\\ \\/ \\n \\r \\t \\uXXXX", excerpt(text[i:]))
			}
			b = utf8.AppendRune(b, r)
			i += size
		default:
			b = append(b, c)
		}
	}
	return "", "", p.fail("the quote is not closed on its line")
}

// unescape reads the text after a backslash; size is 0 for an unknown escape.
func unescape(s string) (r rune, size int) {
	if s == "" {
		return 0, 0
	}
	switch s[0] {
	case '"', '\\', '/':
		return rune(s[0]), 1
	case 'n':
		return '\n', 1
	case 'r':
		return '\r', 1
	case 't':
		return '\t', 1
	case 'u':
		if len(s) < 5 {
			return 0, 0
		}
		n, err := strconv.ParseUint(s[1:5], 16, 32)
		if err != nil || !utf8.ValidRune(rune(n)) {
			return 0, 0
		}
		return rune(n), 5
	}
	return 0, 0
}
