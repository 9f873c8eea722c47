package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"
	"go.yaml.in/yaml/v3"
)

// row is one value, or several that one comment describes, as the reference shows it.
type row struct{ path, of, kind, standard, about string }

// reader collects rows. A type is described where it stands first.
type reader struct {
	root *jsonschema.Schema
	seen map[string]string
	rows []row
}

// rows are all values of a schema in their order. Defaults are those of the
// chart's values.yaml, a mapping.
func rows(schema *jsonschema.Schema, defaults *yaml.Node) []row {
	r := &reader{root: schema, seen: map[string]string{}}
	r.fields(schema, defaults, "")
	return r.rows
}

func (r *reader) fields(schema *jsonschema.Schema, defaults *yaml.Node, prefix string) {
	for pair := schema.Properties.Oldest(); pair != nil; pair = pair.Next() {
		path, property := prefix+pair.Key, pair.Value
		s := resolve(r.root, property)
		about := cmp.Or(property.Description, s.Description)
		if s.Type == "array" && s.Items != nil {
			path, property, s = path+"[]", s.Items, resolve(r.root, s.Items)
			about = cmp.Or(about, s.Description)
		}
		of := strings.TrimPrefix(property.Ref, definitions)
		r.add(row{path, of, kind(s), inline(child(defaults, pair.Key)), about}, s, child(defaults, pair.Key))
	}
}

// add appends a value, and what is in it.
func (r *reader) add(next row, s *jsonschema.Schema, defaults *yaml.Node) {
	switch first := r.seen[next.of]; {
	case evident(s):
		r.rows = append(r.rows, next)
	case first != "":
		r.rows = append(r.rows, row{path: next.path, of: next.of, about: strings.TrimSpace(next.about + " Fields as in `" + first + "`.")})
	default:
		if next.of != "" {
			r.seen[next.of] = next.path
		}
		r.rows = append(r.rows, row{path: next.path, of: next.of, about: next.about})
		r.fields(s, defaults, next.path+".")
	}
}

// evident is what needs no rows of its own: no object, or one whose fields have no comments.
func evident(s *jsonschema.Schema) bool {
	for pair := s.Properties.Oldest(); pair != nil; pair = pair.Next() {
		if pair.Value.Description != "" || pair.Value.Ref != "" || pair.Value.Type == "array" {
			return false
		}
	}
	return true
}

// definitions begin the reference to a type.
const definitions = "#/$defs/"

func resolve(root, s *jsonschema.Schema) *jsonschema.Schema {
	if name, ok := strings.CutPrefix(s.Ref, definitions); ok {
		return root.Definitions[name]
	}
	return s
}

// kind is what a value may be.
func kind(s *jsonschema.Schema) string {
	if len(s.Enum) > 0 {
		var names []string
		for _, value := range s.Enum {
			if value != false {
				names = append(names, fmt.Sprint(value))
			}
		}
		return strings.Join(names, ", ")
	}
	if len(s.OneOf) > 0 {
		return "quantity"
	}
	if s.Properties.Len() > 0 {
		return "{" + strings.Join(slices.Collect(s.Properties.KeysFromOldest()), ", ") + "}"
	}
	return s.Type
}

// child is the value of a key, nil where there is none.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// inline is a value in one line.
func inline(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	flow := *n
	flow.Style = yaml.FlowStyle
	if n.Kind == yaml.ScalarNode {
		flow.Style = n.Style
	}
	out, err := yaml.Marshal(&flow)
	if err != nil {
		return ""
	}
	return "`" + strings.Join(strings.Fields(string(out)), " ") + "`"
}

// list is the reference in Markdown: nested, as the values are.
func list(all []row) string {
	var out strings.Builder
	for len(all) > 0 {
		n := 1
		for n < len(all) && joins(all[n], all[0]) {
			n++
		}
		out.WriteString(line(all[:n]))
		all = all[n:]
	}
	return out.String()
}

// line is the item of neighbours that one comment describes, the first's.
func line(group []row) string {
	first := group[0]
	var names []string
	for _, r := range group {
		names = append(names, "`"+last(r.path)+"`")
	}
	text := strings.Repeat("  ", strings.Count(first.path, ".")) + "- " + strings.Join(names, ", ")
	if what := types(group); what != "" {
		text += " (" + what + ")"
	}
	if first.about != "" {
		text += ": " + strings.NewReplacer("\n", " ", "<", "&lt;", "*", `\*`).Replace(unnamed(first))
	}
	return text + "\n"
}

// types are those of neighbours, or the default of one, which shows its type, too.
func types(group []row) string {
	first := group[0]
	if first.standard != "" && !strings.Contains(first.kind, ", ") {
		return "default " + first.standard
	}
	var kinds []string
	for _, r := range group {
		kinds = append(kinds, r.kind)
	}
	if kinds = slices.Compact(kinds); len(kinds) == 1 && kinds[0] == "string" {
		return ""
	}
	if first.standard != "" {
		kinds = append(kinds, "default "+first.standard)
	}
	return strings.Join(kinds, ", ")
}

// unnamed is what is said of a value without the name in front that comments of Go
// have: that of the field, or of its type.
func unnamed(r row) string {
	name, rest, _ := strings.Cut(r.about, " ")
	verb, object, _ := strings.Cut(rest, " ")
	field := strings.EqualFold(strings.TrimSuffix(name, ":"), strings.TrimSuffix(last(r.path), "[]"))
	switch {
	case (field || name == r.of) && (verb == "is" || verb == "are"):
		return strings.ToUpper(object[:1]) + object[1:]
	case name == r.of || strings.TrimSuffix(name, ":") == r.of || (field && strings.HasSuffix(name, ":")):
		return strings.ToUpper(rest[:1]) + rest[1:]
	}
	return r.about
}

// joins is whether a value without a comment belongs to that of its neighbour.
func joins(next, r row) bool {
	return next.about == "" && next.standard == "" && next.kind != "" && r.kind != "" && parent(next.path) == parent(r.path)
}

func parent(path string) string { return strings.TrimSuffix(path, last(path)) }

func last(path string) string { return path[strings.LastIndex(path, ".")+1:] }

// comment puts what the schema says of the values above them.
func comment(root, schema *jsonschema.Schema, n *yaml.Node) {
	if n.Kind != yaml.MappingNode || schema.Properties == nil {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		property, ok := schema.Properties.Get(n.Content[i].Value)
		if !ok {
			continue
		}
		s := resolve(root, property)
		about := property.Description
		if about == "" {
			about = s.Description
		}
		n.Content[i].HeadComment = about
		comment(root, s, n.Content[i+1])
	}
}
