package module_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// FuzzManifestSection: package abi/manifest has a reader of its own for the
// frames of sections, for programs that do not have the decoder. Of every module
// that is decoded, both find the same manifest, or say that it cannot be used.
func FuzzManifestSection(f *testing.F) {
	const header = "\x00asm\x01\x00\x00\x00"
	for _, wasm := range []string{
		header,
		header + "\x00\x0e\x0cccm.manifest{}",
		header + "\x00\x8e\x80\x80\x80\x00\x0cccm.manifest{",                                     // a padded size
		header + "\x00\x0f\x8c\x00ccm.manifest{}",                                                // a padded name
		header + "\x00\x0e\x0cccm.manifest{}\x00\x0d\x0cccm.manifest",                            // two of them
		header + "\x00\x8e\x80\x04\x0cccm.manifest{" + strings.Repeat(" ", abi.MaxManifestBytes), // too large
		header + "\x00\x0d\x0cccm.manifest\x01\x01\x00",                                          // none in it
		header + "\x00\x0f\x0dccm.manifest\x00x\x05\x03\x01\x00\x01",                             // another name
		header + "\x00\x11\x01x\x00\x0e\x0cccm.manifest{\x05\x03\x01\x00\x01",                    // within another section
	} {
		f.Add([]byte(wasm))
	}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		m, err := wasmbin.Parse(wasm)
		if err != nil {
			return
		}
		want, refused := m.Manifest()
		got, found, err := manifest.Section(wasm)
		if (err != nil) != (refused != nil) || found != (want != nil) || !bytes.Equal(got, want) {
			t.Errorf("found %v %q, %v; the decoder %q, %v", found, got, err, want, refused)
		}
		const text = `{"name":"a","version":"1","abi":{"min":1,"max":1},"ops":[]}`
		appended, err := manifest.Append(wasm, []byte(text))
		if err != nil {
			t.Fatalf("the module is decoded, no manifest can be appended: %v", err)
		}
		if m, err = wasmbin.Parse(appended); err != nil {
			t.Fatalf("with a manifest, the module is not decoded: %v", err)
		}
		if again, err := m.Manifest(); err != nil || string(again) != text {
			t.Errorf("the manifest that was appended is read as %q, %v", again, err)
		}
	})
}
