package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The guest in C under another name, compiled by its Makefile.
func TestNewProviderInC(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "acme")
	if said, err := runCommand(t, "new", "--lang", "c", "--name", "acme", dir); err != nil || !strings.Contains(said, "is written: run make and make test") {
		t.Fatalf("%s: %v", said, err)
	}
	build := exec.CommandContext(t.Context(), "make", "-C", dir, "CCMCTL=true")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v (install the Debian packages make, clang-19 and lld-19): %s", err, out)
	}
	module := filepath.Join(dir, "build", "acme.wasm")
	if said, err := runCommand(t, "manifest", module, filepath.Join(dir, "manifest.json")); err != nil || !strings.Contains(said, "name:          acme\n") {
		t.Errorf("%s: %v", said, err)
	}
	for _, name := range []string{"guest.c", "cases.yaml", "Makefile", "manifest.json"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || bytes.Contains(text, []byte("tiny")) || !bytes.Contains(text, []byte("acme")) {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}
