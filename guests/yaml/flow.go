package yaml

import "strings"

// flow reads [a, b] or {a: b} at the start of the current line's text.
func (p *parser) flow(parent, depth int) (Node, error) {
	if depth > MaxDepth {
		return Node{}, p.fail("this is nested more than %d deep", MaxDepth)
	}
	l := &p.lines[p.at]
	node, closing := Node{Kind: List, Line: l.number}, byte(']')
	if l.text[0] == '{' {
		node.Kind, closing = Map, '}'
	}
	l.text = l.text[1:]
	for {
		c, err := p.next(parent)
		if err != nil {
			return Node{}, err
		}
		if c == closing {
			p.lines[p.at].text = p.lines[p.at].text[1:]
			return node, nil
		}
		if node.Kind == List {
			err = p.flowItem(&node, parent, depth)
		} else {
			err = p.flowField(&node, parent, depth)
		}
		if err == nil {
			err = p.comma(parent, closing)
		}
		if err != nil {
			return Node{}, err
		}
	}
}

// comma reads the sign after an item, except the closing one.
func (p *parser) comma(parent int, closing byte) error {
	c, err := p.next(parent)
	if err != nil || c == closing {
		return err
	}
	if c != ',' {
		return p.fail("there must be a comma or %q before %q", string(closing), excerpt(p.lines[p.at].text))
	}
	p.lines[p.at].text = p.lines[p.at].text[1:]
	return nil
}

// next skips space, comments and line ends and returns the next byte, without
// consuming it.
func (p *parser) next(parent int) (byte, error) {
	for {
		l := &p.lines[p.at]
		if !blank(l.text) {
			l.text = strings.TrimLeft(l.text, " ")
			return l.text[0], nil
		}
		if p.at+1 == len(p.lines) {
			return 0, p.fail("a bracket is not closed")
		}
		p.at++
		if p.lines[p.at].indent <= parent {
			return 0, p.fail("a bracket is not closed above; or indent this line further than what it belongs to")
		}
	}
}

func (p *parser) flowItem(node *Node, parent, depth int) error {
	item, err := p.flowValue(parent, depth)
	node.Items = append(node.Items, item)
	return err
}

func (p *parser) flowField(node *Node, parent, depth int) error {
	l := &p.lines[p.at]
	field := Field{Line: l.number}
	var rest string
	var err error
	if l.text[0] == '"' || l.text[0] == '\'' {
		if field.Key, rest, err = p.quoted(l.text); err != nil {
			return err
		}
		rest = strings.TrimLeft(rest, " ")
	} else {
		end := plainEnd(l.text, true)
		if field.Key, err = p.plainKey(l.text[:end]); err != nil {
			return err
		}
		rest = l.text[end:]
		if len(rest) > 1 && rest[1] != ' ' {
			rest = "" // a colon without a space after a plain key
		}
	}
	if rest == "" || rest[0] != ':' {
		return p.fail("%s needs a value on its line: write %s: VALUE", field.Key, field.Key)
	}
	if err := p.checkKey(node.Fields, field.Key, len(l.text)-len(rest)); err != nil {
		return err
	}
	l.text = rest[1:]
	if field.Value, err = p.flowValue(parent, depth); err != nil {
		return err
	}
	node.Fields = append(node.Fields, field)
	return nil
}

func (p *parser) flowValue(parent, depth int) (Node, error) {
	c, err := p.next(parent)
	switch {
	case err != nil:
		return Node{}, err
	case c == '[' || c == '{':
		return p.flow(parent, depth+1)
	}
	return p.scalar(true)
}
