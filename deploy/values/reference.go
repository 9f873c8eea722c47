package main

import (
	"fmt"
	"strings"

	"github.com/invopop/jsonschema"
	"go.yaml.in/yaml/v3"
)

// row is one value, as the reference shows it.
type row struct{ path, kind, standard, about string }

// rows are all values of a schema in their order. Defaults are those of the
// chart's values.yaml, a mapping.
func rows(root, schema *jsonschema.Schema, defaults *yaml.Node, prefix string) (all []row) {
	for pair := schema.Properties.Oldest(); pair != nil; pair = pair.Next() {
		path, value := prefix+pair.Key, child(defaults, pair.Key)
		s, about := resolve(root, pair.Value), pair.Value.Description
		if s.Type == "array" && s.Items != nil {
			s, path = resolve(root, s.Items), path+"[]"
		}
		if about == "" {
			about = s.Description
		}
		if s.Properties == nil || s.Properties.Len() == 0 {
			all = append(all, row{path, kind(s), inline(value), about})
			continue
		}
		all = append(all, row{path, "", "", about})
		all = append(all, rows(root, s, value, path+".")...)
	}
	return all
}

func resolve(root, s *jsonschema.Schema) *jsonschema.Schema {
	if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
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

// table is the reference in Markdown.
func table(all []row) string {
	var out strings.Builder
	out.WriteString("| value | | default | |\n|---|---|---|---|\n")
	cell := strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "*.", `\*.`)
	for _, r := range all {
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", r.path, cell.Replace(r.kind), cell.Replace(r.standard), cell.Replace(r.about))
	}
	return out.String()
}

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
