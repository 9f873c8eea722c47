package main

import (
	"bytes"
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"sigs.k8s.io/yaml"

	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
)

var newArguments = []string{
	"new", "--upstream", "--name", "mycloud", "--package", "example.com/mycloud/ccm/v2/pkg/cloud", "--require", "example.com/mycloud/ccm/v2@v2.1.0",
	"--host", "api.mycloud.example.com", "--wasm-ccm", "../checkout",
}

func runNew(t *testing.T, dir string, more ...string) error {
	t.Helper()
	cmd := newCommand()
	cmd.SetOut(&bytes.Buffer{})
	cmd.SetArgs(append(append(append([]string{}, newArguments...), more...), dir))
	return cmd.Execute()
}

// The build, the manager and the kit can read the output of new.
func TestNewUpstream(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "guest")
	if err := runNew(t, dir); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte("{{")) || bytes.Contains(data, []byte("<no value>")) {
			t.Errorf("%s: %s", name, data)
		}
		return data
	}
	for _, name := range []string{"main.go", "conformance_test.go"} {
		if formatted, err := format.Source(read(name)); err != nil || !bytes.Equal(formatted, read(name)) {
			t.Errorf("%s is not formatted: %v", name, err)
		}
	}
	if _, err := manifest.Parse(read("manifest.json")); err != nil {
		t.Error(err)
	}
	if _, err := validation.Decode(read("host.yaml")); err != nil {
		t.Error(err)
	}
	mod, err := modfile.Parse("go.mod", read("go.mod"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(mod.Replace) != 3 || mod.Replace[2].New.Path != "../checkout/guests/upstream" || mod.Require[0].Mod.String() != "example.com/mycloud/ccm/v2@v2.1.0" {
		t.Errorf("go.mod: %s", read("go.mod"))
	}
	for _, name := range []string{"config.yaml", "cases.yaml"} {
		var any map[string]any
		if err := yaml.UnmarshalStrict(read(name), &any); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if readme := string(read("README.md")); !strings.Contains(readme, "../checkout/build/ccmctl push") || !strings.Contains(readme, "secrets/kube-system/mycloud/token") {
		t.Errorf("README.md: %s", readme)
	}
	if adapter, err := os.ReadFile("../../../guests/upstream/values.yaml"); err != nil || !bytes.Equal(read("values.yaml"), adapter) {
		t.Errorf("values.yaml is not that of guests/upstream: %v\n%s", err, read("values.yaml"))
	}
	if !strings.Contains(string(read("Makefile")), "../checkout") || !strings.Contains(string(read(".gitignore")), "secrets/") || !strings.Contains(string(read(".gitignore")), "*.key") {
		t.Error("the Makefile does not know the checkout, or git takes the secrets or the key of ccmctl generate-key-pair")
	}
	if err := runNew(t, dir); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("a second time: %v", err)
	}
}

// Without a checkout all references are to a release: the output of new
// contains no path of this machine.
func TestNewUpstreamOfAVersion(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "guest")
	if _, err := runCommand(t, "new", "--upstream", "--name", "mycloud", "--package", "example.com/mycloud", "--require", "example.com/mycloud@v1.0.0",
		"--sdk", "v0.2.0", "--module", "example.com/guests/mycloud", dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"go.mod":    {"module example.com/guests/mycloud\n", "github.com/wasm-ccm/wasm-ccm/guests/upstream v0.2.0\n"},
		"Makefile":  {"\tgo mod tidy\n", "\t$(CCMCTL) build . --compiler go -o build/mycloud.wasm\n", "\ntest: all\n\tMODULE="},
		"README.md": {"\n    ccmctl push", "helm install ccm wasm-ccm-0.2.0.tgz"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s has no %q:\n%s", name, part, text)
			}
		}
		if strings.Contains(string(text), "../wasm-ccm") || strings.Contains(string(text), "WASM_CCM") || strings.Contains(string(text), "\nreplace") {
			t.Errorf("%s wants a checkout:\n%s", name, text)
		}
	}
}

// A vendor may begin with a repository: with git's directory and a license.
func TestNewInARepository(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "LICENSE"), []byte("free"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := runNew(t, dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "main.go")); err != nil {
		t.Error(err)
	}
}

// Nothing is overwritten, and nothing is written if a file is in the way.
func TestNewOverwritesNothing(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := runNew(t, dir); err == nil || !strings.Contains(err.Error(), config) {
		t.Errorf("%v", err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("%v, %v", names, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for flag, values := range map[string][]string{
		"--name":     {"My Cloud", "a/b", ""},
		"--package":  {"", "../x", "example.com/other/pkg", "x\"y"},
		"--require":  {"example.com/mycloud/ccm/v2", "example.com/mycloud/ccm@v2.1.0", "example.com/mycloud/ccm/v2@latest"},
		"--host":     {"https://api.example.com", "a b"},
		"--wasm-ccm": {"checkout"},
		"--version":  {"1 2", "\"", ""},
	} {
		for _, value := range values {
			dir := filepath.Join(t.TempDir(), "guest")
			err := runNew(t, dir, flag+"="+value)
			if err == nil || !strings.Contains(err.Error(), flag) {
				t.Errorf("%s %q: %v", flag, value, err)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("%s %q: the directory was made", flag, value)
			}
		}
	}
}
