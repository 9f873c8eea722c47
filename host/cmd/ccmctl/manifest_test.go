package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/test/peak"
)

const manifestOfStatic = "../../../guests/static/manifest.json"

// bare is a module as a compiler leaves it. The manifest is its last section.
func bare(t *testing.T, module []byte) []byte {
	t.Helper()
	section, found, err := manifest.Section(module)
	if err != nil || !found {
		t.Fatalf("%v, %v", found, err)
	}
	payload := 1 + len(abi.ManifestSection) + len(section)
	return module[:len(module)-payload-len(binary.AppendUvarint(nil, uint64(payload)))-1]
}

func TestManifest(t *testing.T) {
	b := newBench(t)
	guest := b.write(t, "guest.wasm", bare(t, b.module))
	wantFailure(t, "ccmctl manifest", "digest", guest)
	for _, version := range []string{"9.8.7", "9.8.8"} { // put, then replaced
		said := mustCcmctl(t, "manifest", guest, manifestOfStatic, "--set-version", version)
		digest := provenance.Digest(b.read(t, "guest.wasm"))
		if !strings.Contains(said, "version:       \""+version) || !strings.Contains(said, digest) || mustCcmctl(t, "digest", guest) != said {
			t.Errorf("%s: %s", digest, said)
		}
	}
	former := b.read(t, "guest.wasm")
	mustCcmctl(t, "manifest", guest, manifestOfStatic, "-o", b.path("other.wasm"))
	if !bytes.Equal(b.read(t, "guest.wasm"), former) || !bytes.Equal(b.read(t, "other.wasm"), b.module) {
		t.Error("-o: the module differs from what ccmctl build makes, or the input has changed")
	}
}

func link(t *testing.T, b bench, to, name string) string {
	t.Helper()
	if err := os.Symlink(to, b.path(name)); err != nil {
		t.Fatal(err)
	}
	return b.path(name)
}

// The file stays that of its owner: with its mode, and where the link leads. Of a new one
// the umask decides.
func TestManifestKeepsModeAndLink(t *testing.T) {
	b := newBench(t)
	b.write(t, "guest.wasm", bare(t, b.module)) // of mode 0600
	linked := link(t, b, "guest.wasm", "linked.wasm")
	former := syscall.Umask(0o027)
	defer syscall.Umask(former)
	for output, want := range map[string]os.FileMode{linked: 0o600, b.path("new.wasm"): 0o640} {
		mustCcmctl(t, "manifest", linked, manifestOfStatic, "-o", output)
		if info, err := os.Stat(output); err != nil || info.Mode() != want || !bytes.Equal(b.read(t, filepath.Base(output)), b.module) {
			t.Errorf("%v, %v: want %v", info, err, want)
		}
	}
	if to, err := os.Readlink(linked); err != nil || to != "guest.wasm" {
		t.Errorf("the link leads to %q: %v", to, err)
	}
}

// What is read is bounded before it is kept.
func TestManifestTakesLittle(t *testing.T) {
	put := func(name, refusal string, most int, hostile func(t *testing.T, dir string) (module, text string)) peak.Case {
		return peak.Case{Name: name, Most: most, Read: func(t *testing.T, is bool) {
			dir := t.TempDir()
			module, text := filepath.Join(dir, "small.wasm"), manifestOfStatic
			if err := os.WriteFile(module, []byte("\x00asm\x01\x00\x00\x00"), 0o600); err != nil {
				t.Fatal(err)
			}
			want := "does not export"
			if is {
				module, text = hostile(t, dir)
				want = refusal
			}
			if _, _, err := putManifest(module, text, ""); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}}
	}
	sparse := func(t *testing.T, dir, begin string, size int64) string {
		t.Helper()
		file := filepath.Join(dir, "large")
		if err := errors.Join(os.WriteFile(file, []byte(begin), 0o600), os.Truncate(file, size)); err != nil {
			t.Fatal(err)
		}
		return file
	}
	peak.Test(t, []peak.Case{
		put("a module of 8 GiB", "has more than", 8, func(t *testing.T, dir string) (string, string) {
			return sparse(t, dir, "\x00asm\x01\x00\x00\x00", 8<<30), manifestOfStatic
		}),
		put("a manifest of 8 GiB", "shorten it", 8, func(t *testing.T, dir string) (string, string) {
			return filepath.Join(dir, "small.wasm"), sparse(t, dir, "{", 8<<30)
		}),
		// Once as read, once with the manifest.
		put("the largest module", "at most 268435456 are allowed", 2*maxModule>>20+16, func(t *testing.T, dir string) (string, string) {
			// A custom section of all the rest, whose name is one NUL.
			return sparse(t, dir, "\x00asm\x01\x00\x00\x00\x00\xf3\xff\xff\x7f\x01", maxModule), manifestOfStatic
		}),
	})
}

func TestManifestRefuses(t *testing.T) {
	b := newBench(t)
	guest := b.write(t, "guest.wasm", bare(t, b.module))
	put := func(name, text string) string { return b.write(t, name, []byte(text)) }
	const good = `{"name": "x", "version": "1", "abi": {"min": 1, "max": 1}, "ops": []}`
	for want, args := range map[string][]string{
		"none.json":                              {guest, b.path("none.json")},
		"none.wasm":                              {b.path("none.wasm"), manifestOfStatic},
		"$.version: it has 0 bytes":              {guest, put("bad.json", `{"name": "x"}`)},
		"shorten it to at most 65536":            {guest, put("large.json", good+strings.Repeat(" ", abi.MaxManifestBytes))},
		`does not start with \0asm`:              {put("text.wasm", "(module)"), manifestOfStatic},
		"is truncated":                           {put("half.wasm", string(b.module[:len(b.module)/2])), manifestOfStatic},
		`does not export "ccm_abi_v1"`:           {put("empty.wasm", "\x00asm\x01\x00\x00\x00"), manifestOfStatic},
		`with ` + b.path("less.json") + ": ":     {guest, put("less.json", good)}, // static imports capabilities
		"choose a directory that can be written": {guest, manifestOfStatic, "-o", b.path("none/out.wasm")},
		"write " + b.dir:                         {guest, manifestOfStatic, "-o", b.dir},
		"remove the link, or name another file":  {guest, manifestOfStatic, "-o", link(t, b, "none.wasm", "dangling.wasm")},
	} {
		wantFailure(t, want, append([]string{"manifest"}, args...)...)
	}
	if !bytes.Equal(b.read(t, "guest.wasm"), bare(t, b.module)) {
		t.Error("the module has changed")
	}
	for _, dir := range []string{b.dir, filepath.Dir(b.dir)} {
		if left, err := filepath.Glob(filepath.Join(dir, ".ccmctl-*")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %q, %v", left, err)
		}
	}
}
