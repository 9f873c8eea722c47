package yaml_test

import (
	"errors"
	"strings"
	"testing"

	reference "go.yaml.in/yaml/v3"

	"github.com/wasm-ccm/wasm-ccm/guests/yaml"
)

var good = []string{
	"", "# nothing\n", "---\na: 1\n", "a: 1", "a:\n  b: c\n  d: [x, 'y', \"z\"]\n",
	"a:\n- b: 1\n  c: 2\n-   d\n- - e\n  - f\n- \n  g: h\nb: x # comment\n",
	"{\n  \"a\": [1, true, null, \"\\u00e4\\n\"],\n  \"b\": {\"c\":\"d\"},\n}\n",
	"a: {type: InternalIP, address: 192.0.2.1}\nb: 2001:db8::/64\nc: ::1\nd: http://x/#y\n",
	"'a b': 'it''s'\n\"c\\\"d\" : e f  g\n", "a:\nb: ~\nc: null\n", "\ufeffa: ä\r\nb: c\r\n", "- 1\n- -2\n- -x\n- 1.5e3\n- 0x1f\n- .5\n- 10.0.0.1\n- 1_000\n- yes\n- No\n",
	"a:\n  [\n    b, # c\n    d,\n  ]\n", "text", "- nulL\n- Null\n- NULL\n", "'text' # c", "[]", "a: []\nb: {}\n", "a:   # c\n  b: d\n",
}

var bad = map[string]struct {
	text, reason string
	line         int
}{
	"tab":               {"a:\n\tb: c\n", "tab", 2},
	"not UTF-8":         {"a: \xff", "not UTF-8", 1},
	"control":           {"a: b\nc: \x01", "control character", 2},
	"line separator":    {"a: b\u2028c", "control character", 1},
	"twice":             {"a: 1\nb: 2\na: 3\n", "a stands twice, first in line 1", 3},
	"twice in flow":     {"{a: 1, a: 2}", "a stands twice", 1},
	"two documents":     {"a: 1\n---\nb: 2\n", "more than one document", 2},
	"anchor":            {"a: &x 1\n", "anchors and aliases", 1},
	"alias":             {"a: 1\nb: *a\n", "anchors and aliases", 2},
	"tag":               {"a: !!str 1\n", "tags", 1},
	"block text":        {"a: |\n  text\n", "several lines", 1},
	"text goes on":      {"a: text\n  goes on\n", "indentation", 2},
	"dedent":            {"a:\n    b: 1\n  c: 2\n", "indentation", 3},
	"two colons":        {"a: b: c\n", "colon", 1},
	"open quote":        {"a: 'x\n", "not closed", 1},
	"open double quote": {"a: \"x\\\"\n", "not closed", 1},
	"behind quote":      {"a: 'x' y\n", "stands behind", 1},
	"comment no space":  {"a: 'x'#y\n", "stands behind", 1},
	"open bracket":      {"a: [1, 2\nb: 3\n", "not closed", 2},
	"open at the end":   {"a: [1, 2\n", "not closed", 1},
	"no comma":          {"a: [1 [2]]\n", "comma", 1},
	"comma first":       {"a: [, 1]\n", "cannot begin", 1},
	"escape":            {"a: \"\\x41\"\n", "escape", 1},
	"surrogate":         {"a: \"\\ud800\"\n", "escape", 1},
	"no field":          {"a: 1\nfoo\n", "not a field", 2},
	"odd key":           {"a%: 1\n", "quotes", 1},
	"merge key":         {"<<: 1\n", "quotes", 1},
	"question":          {"? a\n: b\n", "cannot begin", 1},
	"long name":         {strings.Repeat("a", 2000) + ": 1", "longer", 1},
	"deep":              {strings.Repeat("[", 40), "nested", 1},
	"deep dashes":       {strings.Repeat("- ", 40) + "a", "nested", 1},
	"flow without":      {"{a, b}", "needs a value", 1},
	"colon at the end":  {"[2001:db8::]", "quotes", 1},
	"list in mapping":   {"a: 1\n- b\n", "indentation", 2},
}

func TestGood(t *testing.T) {
	for _, text := range good {
		node, err := yaml.Parse([]byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		compareWithReference(t, text, node)
	}
}

func TestBad(t *testing.T) {
	for name, test := range bad {
		t.Run(name, func(t *testing.T) {
			_, err := yaml.Parse([]byte(test.text))
			var e *yaml.Error
			if !errors.As(err, &e) || e.Line != test.line || !strings.Contains(e.Reason, test.reason) {
				t.Errorf("Parse(%q): %v, want %q in line %d", test.text, err, test.reason, test.line)
			}
		})
	}
}

// FuzzParse: accepted input means the same to a full YAML reader.
func FuzzParse(f *testing.F) {
	for _, text := range good {
		f.Add(text)
	}
	for _, test := range bad {
		f.Add(test.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		node, err := yaml.Parse([]byte(text))
		if err == nil {
			compareWithReference(t, text, node)
			return
		}
		var e *yaml.Error
		if !errors.As(err, &e) || e.Line < 1 || e.Line > strings.Count(text, "\n")+1 {
			t.Errorf("Parse(%q): %v has no line of the text", text, err)
		}
	})
}

func compareWithReference(t *testing.T, text string, node yaml.Node) {
	t.Helper()
	var doc reference.Node
	if err := reference.Unmarshal([]byte(text), &doc); err != nil {
		t.Errorf("%q is accepted, and no YAML: %v", text, err)
		return
	}
	if len(doc.Content) == 0 {
		if node.Kind != yaml.Null {
			t.Errorf("%q is %v, want nothing", text, node.Kind)
		}
		return
	}
	compare(t, text, node, doc.Content[0])
}

func compare(t *testing.T, text string, got yaml.Node, want *reference.Node) {
	t.Helper()
	wantKind := map[reference.Kind]yaml.Kind{reference.MappingNode: yaml.Map, reference.SequenceNode: yaml.List}[want.Kind]
	if (got.Kind == yaml.Map || got.Kind == yaml.List || wantKind != yaml.Null) && got.Kind != wantKind {
		t.Fatalf("%q: line %d is %v, want %v", text, got.Line, got.Kind, wantKind)
	}
	switch got.Kind {
	case yaml.Map:
		if len(want.Content) != 2*len(got.Fields) {
			t.Fatalf("%q: line %d has %d fields, want %d", text, got.Line, len(got.Fields), len(want.Content)/2)
		}
		for i, field := range got.Fields {
			if field.Key != want.Content[2*i].Value || field.Line != want.Content[2*i].Line {
				t.Fatalf("%q: field %q in line %d, want %q in line %d", text, field.Key, field.Line, want.Content[2*i].Value, want.Content[2*i].Line)
			}
			compare(t, text, field.Value, want.Content[2*i+1])
		}
	case yaml.List:
		if len(want.Content) != len(got.Items) {
			t.Fatalf("%q: line %d has %d items, want %d", text, got.Line, len(got.Items), len(want.Content))
		}
		for i, item := range got.Items {
			compare(t, text, item, want.Content[i])
		}
	default:
		compareScalar(t, text, got, want)
	}
}

func compareScalar(t *testing.T, text string, got yaml.Node, want *reference.Node) {
	t.Helper()
	allowed := map[yaml.Kind]string{
		yaml.Null: "!!null", yaml.Bool: "!!bool !!str", yaml.Number: "!!int !!float !!str", yaml.Text: "!!str !!timestamp !!merge",
	}[got.Kind]
	if !strings.Contains(allowed, want.Tag) {
		t.Fatalf("%q: %q in line %d is %v, want %s", text, got.Value, got.Line, got.Kind, want.Tag)
	}
	if got.Kind != yaml.Null && got.Value != want.Value {
		t.Fatalf("%q: line %d is %q, want %q", text, got.Line, got.Value, want.Value)
	}
}
