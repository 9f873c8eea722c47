package manager

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// Every key of this project's domain in the code is known to the reporter of
// unknown ones: otherwise it would call correct annotations wrong.
func TestEveryKeyThatIsReadIsKnown(t *testing.T) {
	known := keys()
	// Of ConfigMaps, of the namespace, and the manager's own.
	others := []string{"provider", "phase", "reason", "generation", "version", "offered", "serving", "since", "pause", "promote", "rollback", "deletion-brake-lifted-until"}
	named := regexp.MustCompile(`"((?:static\.)?wasm-ccm\.dev/([a-z-]+))"`)
	found := 0
	for _, pattern := range []string{"../*/*/*.go", "../*/*.go", "../../../guests/static/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			if regexp.MustCompile(`_test\.go$`).MatchString(file) {
				continue
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range named.FindAllSubmatch(data, -1) {
				found++
				if name := string(m[1]); !known.Has(name) && !slices.Contains(others, string(m[2])) {
					t.Errorf("%s reads or writes %s: name it in keys, or in this test if it is on no Service and no Node", file, name)
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d keys are named", found)
	}
}
