package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Of many stuck objects the first are named, in order, and the others are
// counted, including those that the manager does not name.
func TestStatusNamesTheFirstThatAreStuck(t *testing.T) {
	stuck := func(kind, name string) v1alpha1.Explanation {
		return v1alpha1.Explanation{Object: v1alpha1.Object{Kind: kind, Name: name}, Cause: "Refused", Message: "no"}
	}
	p := v1alpha1.Provider{Name: "a", Services: &v1alpha1.Objects{}, Nodes: &v1alpha1.Objects{Stuck: 70}}
	for n := range v1alpha1.MaxStuck {
		p.Stuck = append(p.Stuck, stuck("Node", fmt.Sprintf("worker-%02d", 99-n)))
	}
	status := &v1alpha1.Status{Providers: []v1alpha1.Provider{p}, Nobodys: []v1alpha1.Explanation{stuck("Node", "aaa")}}
	for output, want := range map[string][]string{
		"table": {"Stuck:\n  node aaa: Refused: no\n  node worker-50: ", "  node worker-58: Refused: no\n  and 61 more\n", "ccmctl why node aaa\n"},
		"wide":  {"  node worker-99: Refused: no\n  and 20 more\n"},
	} {
		var out bytes.Buffer
		if err := printStatus(&out, output, status); err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%s: no %q in\n%s", output, text, out.String())
			}
		}
	}
}
