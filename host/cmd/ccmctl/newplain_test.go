package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The guests in C and Rust under another name, compiled by their Makefiles.
func TestNewProviderInPlainLanguages(t *testing.T) {
	for lang, source := range map[string]string{"c": "guest.c", "rust": "guest.rs"} {
		t.Run(lang, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "acme")
			if said, err := runCommand(t, "new", "--lang", lang, "--name", "acme", dir); err != nil || !strings.Contains(said, "is written: run make and make test") {
				t.Fatalf("%s: %v", said, err)
			}
			build := exec.CommandContext(t.Context(), "make", "-C", dir, "CCMCTL=true")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v (run make deps): %s", err, out)
			}
			module := filepath.Join(dir, "build", "acme.wasm")
			if said, err := runCommand(t, "manifest", module, filepath.Join(dir, "manifest.json")); err != nil || !strings.Contains(said, "name:          acme\n") {
				t.Errorf("%s: %v", said, err)
			}
			for _, name := range []string{source, "cases.yaml", "Makefile", "manifest.json"} {
				if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || bytes.Contains(text, []byte("tiny")) || !bytes.Contains(text, []byte("acme")) {
					t.Errorf("%s: %v\n%s", name, err, text)
				}
			}
		})
	}
}

func TestNewCompletesLanguages(t *testing.T) {
	if said, err := runCommand(t, "__complete", "new", "--lang", ""); err != nil || !strings.HasPrefix(said, "go\nc\nrust\n") {
		t.Errorf("%s: %v", said, err)
	}
}

// Without a compiler that can, there is one error, which says what to install.
func TestNewProviderWithoutRust(t *testing.T) {
	dir := t.TempDir()
	if said, err := runCommand(t, "new", "--lang", "rust", "--name", "acme", dir); err != nil {
		t.Fatalf("%s: %v", said, err)
	}
	// The same script on a machine whose rustc has no target for WebAssembly.
	script, err := os.ReadFile(filepath.Join(dir, "build.sh"))
	if err != nil {
		t.Fatal(err)
	}
	without := bytes.ReplaceAll(script, []byte("/usr/bin/rustc"), []byte("false"))
	if err := os.WriteFile(filepath.Join(dir, "build.sh"), without, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "make", "--silent", "-C", dir, "CCMCTL=true", "RUSTC=false").CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "no rustc has the target wasm32-unknown-unknown and rust-lld: install Debian's rustc") || strings.Count(string(out), "\n") != 2 {
		t.Errorf("%v: %s", err, out)
	}
}
