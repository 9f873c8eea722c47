package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
)

// A person's save begins a round; a build's output does not.
func TestWatchTree(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"cloud", "build", ".git"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	saved, err := watchTree(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	save := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(time.Now().String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	told := func(name string) {
		t.Helper()
		save(name)
		select {
		case <-saved:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s is saved, and nobody is told", name)
		}
	}
	told("main.go")
	told("cloud/api.go")
	if err := os.Mkdir(filepath.Join(root, "later"), 0o700); err != nil {
		t.Fatal(err)
	}
	<-saved
	told("later/more.go")
	for _, name := range []string{"provider.wasm", "provider.wasm.stamp", "build/x.go", ".git/index", ".main.go.swp", "main.go~"} {
		save(name)
	}
	// In order: a report of an earlier write would come first.
	told("main.go")
	select {
	case <-saved:
		t.Error("what a build or an editor writes is told")
	case <-time.After(4 * settles):
	}
}

// Another compiler's module is one file, in whatever way it is replaced.
func TestWatchOneFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mycloud.wasm")
	saved, err := watchTree(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		next := fmt.Sprint(file, i)
		if err := os.WriteFile(next, []byte{byte(i)}, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, file); err != nil {
			t.Fatal(err)
		}
		select {
		case <-saved:
		case <-time.After(10 * time.Second):
			t.Fatal("it is replaced, and nobody is told")
		}
	}
}

// Edited files and compiled modules may be behind a link.
func TestWatchBehindALink(t *testing.T) {
	dir, links := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "mycloud.wasm")
	if err := os.WriteFile(file, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"tree": dir, "mycloud.wasm": file} {
		if err := os.Symlink(to, filepath.Join(links, link)); err != nil {
			t.Fatal(err)
		}
		saved, err := watchTree(t.Context(), filepath.Join(links, link))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{file, filepath.Join(dir, "main.go")} {
			if err := os.WriteFile(name, []byte("1"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-saved:
		case <-time.After(10 * time.Second):
			t.Errorf("%s: a file behind it is saved, and nobody is told", link)
		}
	}
}

func TestReplaceModule(t *testing.T) {
	data := func(keys ...string) map[string][]byte {
		m := map[string][]byte{}
		for _, k := range keys {
			m[k] = []byte(k)
		}
		return m
	}
	for _, test := range []struct {
		name, suffix string
		binary       map[string][]byte
		text         map[string]string
		want, err    string
	}{
		{"empty", "", nil, nil, "provider.wasm", ""},
		{"as kubectl makes it", "", data("mycloud.wasm"), map[string]string{"cloud.conf": "x"}, "mycloud.wasm", ""},
		{"it grew", ".gz", data("mycloud.wasm"), nil, "mycloud.wasm.gz", ""},
		{"it shrank", "", data("mycloud.wasm.zst"), nil, "mycloud.wasm", ""},
		{"signed", "", data("mycloud.wasm"), map[string]string{"mycloud.wasm.sig": "x"}, "", "mycloud.wasm.sig: a signed"},
		{"split", "", data("x.part"), nil, "", "x.part: a signed or split"},
		{"the last of a split one", "", nil, map[string]string{"provider.wasm.zst.parts": "x"}, "", "provider.wasm.zst.parts: a signed or split"},
	} {
		cm := &corev1.ConfigMap{BinaryData: test.binary, Data: test.text}
		err := replaceModule(cm, test.suffix, []byte("new"))
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: error %v, want %q", test.name, err, test.err)
			}
			continue
		}
		if err != nil || len(cm.BinaryData) != 1 || string(cm.BinaryData[test.want]) != "new" || len(cm.Data) != len(test.text) {
			t.Errorf("%s: %v, %v", test.name, err, cm)
		}
	}
}

func TestDifferences(t *testing.T) {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	old := withManifest(t, `{"name":"a","version":"1","abi":{"min":1,"max":1},"ops":["instance_exists","lb_get"],"capabilities":[]}`)
	differences(say, nil, old)
	differences(say, old, old)
	differences(say, old, withManifest(t, `{"name":"a","version":"1","abi":{"min":1,"max":1},"ops":["instance_exists","route_list"],"capabilities":["kube"]}`))
	want := []string{"the module is the same as before", "+ op route_list", "+ capability kube", "- op lb_get"}
	for _, line := range want {
		if !slices.Contains(lines, line) {
			t.Errorf("%q is not said: %q", line, lines)
		}
	}
	if len(lines) != len(want)+1 { // and the size
		t.Errorf("%q", lines)
	}
}

// withManifest is the smallest module with a manifest.
func withManifest(t *testing.T, text string) []byte {
	t.Helper()
	wasm, err := manifest.Append([]byte("\x00asm\x01\x00\x00\x00"), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}
