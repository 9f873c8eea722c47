package conformance

import (
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// With actions a reading POST is no write, and reports name the action.
func TestActions(t *testing.T) {
	query := &Actions{Name: `(?:^|&)Action=(\w+)`, Reads: `^Describe`}
	soap := &Actions{Name: `<(?:\w+:)?Body[^>]*>\s*<(?:\w+:)?(\w+)`, Reads: `^Retrieve`}
	for _, c := range []struct {
		from         *Actions
		method, body string
		write        bool
		about        string
	}{
		{nil, "POST", "Action=DescribeInstances", true, "POST /"},
		{nil, "GET", "", false, "GET /"},
		{query, "POST", "Version=1&Action=DescribeInstances", false, "POST / DescribeInstances"},
		{query, "POST", "Action=CreateTags&Filter=Action=DescribeTags", true, "POST / CreateTags"},
		{query, "POST", "NoAction=DescribeInstances", true, "POST /"},
		{query, "POST", "", true, "POST /"},
		{query, "GET", "", false, "GET /"},
		{soap, "POST", "<e:Body>\n<RetrieveProperties/>", false, "POST / RetrieveProperties"},
		{soap, "POST", `<Body xmlns="x"><Login><x>Retrieve</x>`, true, "POST / Login"},
	} {
		a, err := newActions(c.from)
		if err != nil {
			t.Fatal(err)
		}
		request := &abi.HttpRequest{Method: c.method, Url: "https://cloud.example.com/?secret=1", Body: []byte(c.body)}
		if write, about := a.write(request), a.about(request); write != c.write || about != c.about {
			t.Errorf("%s %q: write %t, %q, want %t, %q", c.method, c.body, write, about, c.write, c.about)
		}
	}
}

func TestMistakenActions(t *testing.T) {
	const nodes = "nodes: [{name: a}, {name: b}]\n"
	for text, want := range map[string]string{
		"actions: {name: '(', reads: x}":     "actions.name",
		"actions: {name: Action, reads: x}":  "has no group",
		"actions: {name: '(x)', reads: '('}": "actions.reads",
		"actions: {name: '(x)'}":             "actions.reads is empty",
	} {
		if _, err := ParseCases([]byte(nodes + text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
