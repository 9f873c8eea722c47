package registry

import (
	"bytes"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/types"
)

// FuzzManifest reads what a registry may send as a manifest. Whatever is taken
// has one layer of a known type, or images to choose from.
func FuzzManifest(f *testing.F) {
	for _, seed := range []string{
		`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","layers":[{"mediaType":"application/wasm","digest":"sha256:aa","size":1}]}`,
		`{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:aa","size":1,"platform":{"os":"wasip1","architecture":"wasm"}}]}`,
		`{"schemaVersion":1,"fsLayers":[{}]}`, `{}`, `[]`, ``,
	} {
		f.Add([]byte(seed), string(types.OCIManifestSchema1))
		f.Add([]byte(seed), string(types.OCIImageIndex))
	}
	f.Fuzz(func(t *testing.T, data []byte, kind string) {
		signatureLayers(data)
		bundleLayer(data)
		d, err := decode(data, types.MediaType(kind))
		if err != nil {
			return
		}
		if d.isIndex() {
			if chosen, err := d.choose("amd64"); err == nil && (chosen.Digest.Algorithm != "sha256" || chosen.Size > maxManifest) {
				t.Fatalf("chose %+v", chosen)
			}
			return
		}
		if len(d.Layers) != 1 || !isModule(d.Layers[0].MediaType) && !isTar(d.Layers[0].MediaType) || len(d.Layers[0].URLs) > 0 {
			t.Fatalf("took %+v", d)
		}
	})
}

// FuzzLayer reads what a layer may hold: within the bounds, and no name with a
// path.
func FuzzLayer(f *testing.F) {
	index, err := pack(Content{Module: []byte("\x00asm"), Files: map[string][]byte{"config.yaml": nil}})
	if err != nil {
		f.Fatal(err)
	}
	for _, compression := range []string{"", "gzip", "zstd"} {
		f.Add(index, compression)
	}
	l := newLimits(64<<10, nil)
	f.Fuzz(func(t *testing.T, data []byte, compression string) {
		files, err := l.untar(bytes.NewReader(data), compression)
		if err != nil {
			return
		}
		total := 0
		for name, content := range files {
			total += len(content)
			if name == "" || bytes.ContainsRune([]byte(name), '/') || name[0] == '.' {
				t.Fatalf("a file is named %q", name)
			}
		}
		if int64(total) > l.layer() {
			t.Fatalf("%d bytes were unpacked", total)
		}
	})
}
