package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAppendAndShow(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.wasm"), filepath.Join(dir, "out.wasm")
	if err := os.WriteFile(in, []byte("\x00asm\x01\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, guest := range []string{"static", "example"} {
		file := filepath.Join("..", "..", guest, "manifest.json")
		if err := run([]string{"check", "-manifest", file}, nil); err != nil {
			t.Fatal(err)
		}
		if err := run([]string{"append", "-manifest", file, "-version", "9.8.7", "-o", out, in}, nil); err != nil {
			t.Fatal(err)
		}
		var shown bytes.Buffer
		if err := run([]string{"show", out}, &shown); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"name": "` + guest + `"`, `"version": "9.8.7"`} {
			if !strings.Contains(shown.String(), want) {
				t.Errorf("%s is missing in %s", want, &shown)
			}
		}
	}
}

func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	bad, empty := filepath.Join(dir, "bad.json"), filepath.Join(dir, "empty.wasm")
	for file, content := range map[string]string{bad: `{"name":"x"}`, empty: "\x00asm\x01\x00\x00\x00"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	imports := filepath.Join(dir, "imports.wasm")
	if err := os.WriteFile(imports, []byte("\x00asm\x01\x00\x00\x00\x02\x11\x01\x06ccm_v1\x05nodes\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args []string
		want string
	}{
		"undeclared":  {[]string{"append", "-manifest", "../../static/manifest.json", "-o", empty, imports}, `add it to "capabilities"`},
		"nothing":     {nil, "usage"},
		"unknown":     {[]string{"fly"}, "usage"},
		"no output":   {[]string{"append", empty}, "usage"},
		"no manifest": {[]string{"append", "-manifest", filepath.Join(dir, "none.json"), "-o", empty, empty}, "none.json"},
		"bad":         {[]string{"append", "-manifest", bad, "-o", empty, empty}, "$.version"},
		"check bad":   {[]string{"check", "-manifest", bad}, "$.version"},
		"check file":  {[]string{"check", "-manifest", bad, empty}, "usage"},
		"no module":   {[]string{"append", "-manifest", "../../static/manifest.json", "-o", empty, bad}, "bad.json"},
		"no section":  {[]string{"show", empty}, "no manifest"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := run(test.args, nil)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
