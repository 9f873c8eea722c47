package module_test

import (
	"bytes"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// manifests returns the contents of the manifest sections, as the decoder of
// modules finds them.
func manifests(wasm []byte) (all [][]byte) {
	for r := (&wasmbin.Reader{Data: wasm, Pos: len(wasmbin.Header())}); r.More(); {
		id := r.Byte()
		content := r.Part(r.U32())
		if id == 0 && string(content.Name()) == abi.ManifestSection {
			all = append(all, content.Data[content.Pos:])
		}
	}
	return all
}

// FuzzManifestSection: package abi/manifest has a reader of its own for the
// frames of sections, which other programs use too. Of every module that is
// decoded, both find the same manifest.
func FuzzManifestSection(f *testing.F) {
	const header = "\x00asm\x01\x00\x00\x00"
	for _, wasm := range []string{
		header,
		header + "\x00\x0e\x0cccm.manifest{}",
		header + "\x00\x8e\x80\x80\x80\x00\x0cccm.manifest{",                  // a padded size
		header + "\x00\x0f\x8c\x00ccm.manifest{}",                             // a padded name
		header + "\x00\x0e\x0cccm.manifest{}\x00\x0d\x0cccm.manifest",         // two of them
		header + "\x00\x0d\x0cccm.manifest\x01\x01\x00",                       // none in it
		header + "\x00\x0f\x0dccm.manifest\x00x\x05\x03\x01\x00\x01",          // another name
		header + "\x00\x11\x01x\x00\x0e\x0cccm.manifest{\x05\x03\x01\x00\x01", // within another section
	} {
		f.Add([]byte(wasm))
	}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		if _, err := wasmbin.Parse(wasm); err != nil {
			return
		}
		want := manifests(wasm)
		got, found, err := manifest.Section(wasm)
		switch {
		case len(want) > 1 || len(want) == 1 && len(want[0]) > abi.MaxManifestBytes:
			if err == nil {
				t.Errorf("%d manifests, and no error", len(want))
			}
		case err != nil:
			t.Errorf("the module is decoded, its manifest is not found: %v", err)
		case found != (len(want) == 1), found && !bytes.Equal(got, want[0]):
			t.Errorf("found %v %q, want %q", found, got, want)
		}
		const text = `{"name":"a","version":"1","abi":{"min":1,"max":1},"ops":[]}`
		appended, err := manifest.Append(wasm, []byte(text))
		if err != nil {
			t.Fatalf("the module is decoded, no manifest can be appended: %v", err)
		}
		if _, err := wasmbin.Parse(appended); err != nil {
			t.Errorf("with a manifest, the module is not decoded: %v", err)
		}
		if all := manifests(appended); len(all) != 1 || string(all[0]) != text {
			t.Errorf("the manifest that was appended is read as %q", all)
		}
	})
}
