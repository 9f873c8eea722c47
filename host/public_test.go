package host_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A public package brings no more packages of others into a program than its
// purpose needs.
func TestPublicPackagesBringFewOthers(t *testing.T) {
	const machinery = "Kubernetes' API machinery: metav1, with all that it imports"
	const messages = "the library of the ABI's messages"
	for _, p := range []struct {
		dir  string
		most int
		why  string
	}{
		{"config/v1alpha1", 64, machinery + "; and " + messages},
		{"status/v1alpha1", 62, machinery},
		{"conformance", 540, "what a manager runs a provider with"},
		{"../abi", 1, messages},
		{"../abi/manifest", 1, messages},
		{"../abi/wire", 1, messages},
		{"../guests/sdk", 1, messages},
		{"../guests/sdk/rest", 1, messages},
		{"../guests/sdk/sdktest", 1, messages},
		{"../guests/build", 1, messages},
	} {
		// The cache of tests knows what a test opens, not what its commands open.
		if _, err := os.ReadDir(p.dir); err != nil {
			t.Fatal(err)
		}
		if got := others(t, p.dir); got < 1 || got > p.most {
			t.Errorf("%s needs %d packages of others, 1 to %d are allowed: %s", p.dir, got, p.most, p.why)
		}
	}
}

// others counts the packages of other modules that a package needs.
func others(t *testing.T, dir string) (n int) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	list.Dir, list.Stderr = dir, os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	for module := range strings.FieldsSeq(string(out)) {
		if !strings.HasPrefix(module, "github.com/wasm-ccm/") {
			n++
		}
	}
	return n
}
