package main

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
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
