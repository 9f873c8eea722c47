package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/conformance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
)

// runCommand runs ccmctl, and returns what it prints.
func runCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := newCommand()
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// The output of new is tested, built and configured under its given name.
func TestNewProvider(t *testing.T) {
	checkout, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "acme")
	if said, err := runCommand(t, "new", "--name", "acme", "--module", "example.com/cloud/acme-ccm", "--wasm-ccm", checkout, dir); err != nil || !strings.Contains(said, "is written: run go mod tidy") {
		t.Fatalf("%s: %v", said, err)
	}
	for _, command := range []string{"go mod tidy", "go vet ./...", "go test ./...", `test -z "$(gofmt -l .)"`} {
		c := exec.CommandContext(t.Context(), "sh", "-c", command)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	module := filepath.Join(dir, "build", "acme.wasm")
	if said, err := runCommand(t, "build", dir, "-o", module, "--compiler", "go"); err != nil || !strings.Contains(said, "acme.wasm 0.1.0: ") {
		t.Fatalf("%s: %v", said, err)
	}
	binary, err := readModule(module)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := readManifest(binary); err != nil || m.Name != "acme" {
		t.Errorf("%v, %v", m, err)
	}
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("mycloud")) || bytes.Contains(text, []byte("guests/example")) {
			t.Errorf("%s: %s", name, text)
		}
		return text
	}
	if _, err := manifest.Parse(read("manifest.json")); err != nil {
		t.Error(err)
	}
	if c, err := validation.Decode(read("host.yaml")); err != nil || c.Providers[0].Name != "acme" {
		t.Errorf("%v, %v", c, err)
	}
	if _, err := conformance.ParseCases(read("cases.yaml")); err != nil {
		t.Error(err)
	}
	if text := read("main.go"); !bytes.Contains(text, []byte(`"acme://"`)) || !bytes.Contains(text, []byte("Command acme-ccm is a provider. Its cloud")) {
		t.Errorf("main.go: %.300s", text)
	}
}

func TestNewProviderRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"--name":     {"--name", "My Cloud", "--sdk", "v0.2.0"},
		"--module":   {"--name", "x", "--sdk", "v0.2.0", "--module", "../x"},
		"--sdk":      {"--name", "x"},
		"--sdk \"1":  {"--name", "x", "--sdk", "1"},
		"--wasm-ccm": {"--name", "x", "--wasm-ccm", "checkout"},
		"--upstream": {"--name", "x", "--sdk", "v0.2.0", "--package", "example.com/x"},
		"--lang \"":  {"--name", "x", "--lang", "cobol"},
		"--lang c":   {"--name", "x", "--lang", "c", "--sdk", "v0.2.0"},
		"--sdk v0":   {"--upstream", "--name", "x", "--package", "example.com/x", "--require", "example.com/x@v1.0.0"},
	} {
		dir := filepath.Join(t.TempDir(), "guest")
		if _, err := runCommand(t, append([]string{"new", dir}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", args, err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%v: the directory was made", args)
		}
	}
}

func TestNewProviderOfAVersion(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "guest")
	if _, err := runCommand(t, "new", "--name", "x", "--sdk", "v0.2.0", dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil || strings.Contains(string(text), "replace") || strings.Count(string(text), " v0.2.0") != 2 {
		t.Errorf("%s, %v", text, err)
	}
}
