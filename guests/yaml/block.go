package yaml

import "strings"

// block reads the node at the current line, whose indentation is indent; parent
// is the indentation of its owner.
func (p *parser) block(indent, parent, depth int) (Node, error) {
	if depth > MaxDepth {
		return Node{}, p.fail("this is nested more than %d deep", MaxDepth)
	}
	l := p.lines[p.at]
	if isDash(l.text) {
		return p.list(indent, depth)
	}
	if _, _, found, err := p.key(l.text); err != nil {
		return Node{}, err
	} else if found {
		return p.mapping(indent, depth)
	}
	node, err := p.inline(parent, depth)
	if err == nil {
		err = p.endOfLine()
	}
	return node, err
}

func isDash(text string) bool { return text == "-" || strings.HasPrefix(text, "- ") }

func (p *parser) list(indent, depth int) (Node, error) {
	node := Node{Kind: List, Line: p.lines[p.at].number}
	for p.at < len(p.lines) && p.lines[p.at].indent == indent && isDash(p.lines[p.at].text) {
		item, err := p.item(indent, depth)
		if err != nil {
			return Node{}, err
		}
		node.Items = append(node.Items, item)
	}
	return node, p.checkIndent(indent)
}

// item reads one item, whose first line begins with a dash. The text after the
// dash is read as a line of its own.
func (p *parser) item(indent, depth int) (Node, error) {
	l := &p.lines[p.at]
	if blank(l.text[1:]) {
		return p.below(indent, depth, false)
	}
	rest := strings.TrimLeft(l.text[1:], " ")
	l.indent += len(l.text) - len(rest)
	l.text = rest
	return p.block(l.indent, indent, depth+1)
}

// below reads the node under the current line, which is used up: Null if the
// next line is not indented further. The list of a mapping may have its dashes
// in the column of the key.
func (p *parser) below(indent, depth int, dashes bool) (Node, error) {
	number := p.lines[p.at].number
	p.at++
	if p.at < len(p.lines) {
		next := p.lines[p.at]
		if next.indent > indent {
			return p.block(next.indent, indent, depth+1)
		}
		if dashes && next.indent == indent && isDash(next.text) {
			return p.list(indent, depth+1)
		}
	}
	return Node{Line: number}, nil
}

func (p *parser) mapping(indent, depth int) (Node, error) {
	node := Node{Kind: Map, Line: p.lines[p.at].number}
	for p.at < len(p.lines) && p.lines[p.at].indent == indent && !isDash(p.lines[p.at].text) {
		l := &p.lines[p.at]
		key, rest, found, err := p.key(l.text)
		if err == nil && !found {
			err = p.fail("%q is not a field: write NAME: VALUE", excerpt(l.text))
		}
		if err == nil {
			err = p.checkKey(node.Fields, key, len(l.text)-len(rest))
		}
		if err != nil {
			return Node{}, err
		}
		field := Field{Key: key, Line: l.number}
		if blank(rest) {
			field.Value, err = p.below(indent, depth, true)
		} else {
			l.text = strings.TrimLeft(rest, " ")
			if field.Value, err = p.inline(indent, depth+1); err == nil {
				err = p.endOfLine()
			}
		}
		if err != nil {
			return Node{}, err
		}
		node.Fields = append(node.Fields, field)
	}
	return node, p.checkIndent(indent)
}

// checkIndent is called after a list or a mapping: a line with more indentation
// would be text over several lines, or belong nowhere.
func (p *parser) checkIndent(indent int) error {
	if p.at < len(p.lines) && p.lines[p.at].indent > indent {
		return p.fail("this does not fit the lines above: check the indentation")
	}
	return nil
}

// checkKey checks a key that has so many bytes in its line.
func (p *parser) checkKey(fields []Field, key string, size int) error {
	if size > maxKeyBytes {
		return p.fail("the name %q is longer than %d bytes", excerpt(key), maxKeyBytes)
	}
	if len(fields) == MaxFields {
		return p.fail("the mapping has more than %d fields", MaxFields)
	}
	for i := range fields {
		if fields[i].Key == key {
			return p.fail("%s stands twice, first in line %d", key, fields[i].Line)
		}
	}
	return nil
}

// endOfLine ends the current line, of which only a comment may be left.
func (p *parser) endOfLine() error {
	if rest := p.lines[p.at].text; !blank(rest) {
		return p.fail("%q stands behind a value; put text with such characters into quotes", excerpt(rest))
	}
	p.at++
	return nil
}

// key splits "key: rest". found is false if the text is no field.
func (p *parser) key(text string) (key, rest string, found bool, err error) {
	if text[0] == '"' || text[0] == '\'' {
		key, rest, err = p.quoted(text)
		trimmed := strings.TrimLeft(rest, " ")
		if err != nil || trimmed == "" || trimmed[0] != ':' || (len(trimmed) > 1 && trimmed[1] != ' ') {
			return "", "", false, err
		}
		return key, trimmed[1:], true, nil
	}
	if text[0] == '[' || text[0] == '{' {
		return "", "", false, nil
	}
	end := plainEnd(text, false)
	if end == len(text) || text[end] != ':' {
		return "", "", false, nil
	}
	key, err = p.plainKey(text[:end])
	return key, text[end+1:], true, err
}

// plainKey checks a key without quotes.
func (p *parser) plainKey(raw string) (string, error) {
	key := strings.TrimRight(raw, " ")
	for i := 0; i < len(key); i++ {
		if !isKeyByte(key[i]) {
			return "", p.fail("put the name %q into quotes", excerpt(key))
		}
	}
	if key == "" {
		return "", p.fail("there is no name before the colon")
	}
	return key, nil
}

func isKeyByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '/' || c == '-'
}

// excerpt shortens text for an error message.
func excerpt(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
