// Command values writes what the chart says of its values: values.schema.json, the reference in README.md, and the
// comments of values.yaml. Their owner are the Go types here, and those of the HostConfiguration. The defaults are in
// values.yaml.
//
//	go run ./deploy/values deploy/chart
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/invopop/jsonschema"
	"go.yaml.in/yaml/v3"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "values:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("give the directory of the chart, and run it at the top of the repository")
	}
	files, err := generate(args[0])
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(args[0], name), content, 0o644); err != nil { //nolint:gosec // sources are read by everybody
			return err
		}
	}
	return nil
}

// generate has the files of a chart that are made of its values, by their names.
func generate(chart string) (map[string][]byte, error) {
	schema, err := schemaOf()
	if err != nil {
		return nil, err
	}
	plain, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return nil, err
	}
	values, document, err := commented(filepath.Join(chart, "values.yaml"), schema)
	if err != nil {
		return nil, err
	}
	readme, err := referenced(filepath.Join(chart, "README.md"), list(rows(schema, document)))
	if err != nil {
		return nil, err
	}
	return map[string][]byte{"values.schema.json": append(plain, '\n'), "values.yaml": values, "README.md": readme}, nil
}

// commented has the values with their comments, and the mapping that they are.
func commented(name string, schema *jsonschema.Schema) ([]byte, *yaml.Node, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) != 1 {
		return nil, nil, fmt.Errorf("%s: want one document", name)
	}
	mapping := document.Content[0]
	comment(schema, schema, mapping)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(mapping); err != nil {
		return nil, nil, err
	}
	return out.Bytes(), mapping, encoder.Close()
}

// reference begins the part of README.md that is generated, which is its end.
const reference = "## Reference\n\nA field with `[]` is a list. A field without a type or a default is a text, or has the fields below it.\n\n"

func referenced(name, list string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	before, _, found := bytes.Cut(data, []byte(reference))
	if !found {
		return nil, fmt.Errorf("%s: there is no heading %q", name, reference)
	}
	return append(append(before, reference...), list...), nil
}
