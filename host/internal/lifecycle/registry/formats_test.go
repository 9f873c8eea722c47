package registry_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/registry"
	"github.com/wasm-ccm/wasm-ccm/host/test/devregistry"
	"github.com/wasm-ccm/wasm-ccm/host/test/sparse"
)

// entry is a file of a layer.
type entry struct {
	name, content string
	kind          byte
}

func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		if e.kind == 0 {
			e.kind = tar.TypeReg
		}
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Mode: 0o644}
		if e.kind == tar.TypeReg {
			h.Size = int64(len(e.content))
		} else {
			h.Linkname = e.content
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if e.kind == tar.TypeReg {
			if _, err := w.Write([]byte(e.content)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func gzipOf(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(data)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstdOf(t testing.TB, data []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(data, nil)
}

func imageOf(t testing.TB, kind, config types.MediaType, layers ...v1.Layer) v1.Image {
	t.Helper()
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, kind), config)
	for _, l := range layers {
		var err error
		if image, err = mutate.Append(image, mutate.Addendum{Layer: l}); err != nil {
			t.Fatal(err)
		}
	}
	return image
}

func layer(data []byte, kind types.MediaType) v1.Layer { return static.NewLayer(data, kind) }

func TestFormats(t *testing.T) {
	address := open(t, devregistry.Options{}).Address
	plain := tarOf(t, entry{name: "./" + registry.ModuleName, content: wasm}, entry{name: "sub/", kind: tar.TypeDir}, entry{name: "sub/x.wasm", content: "x"}, entry{name: ".wh.gone", content: ""})
	artifact := func(media types.MediaType) v1.Image {
		return imageOf(t, types.OCIManifestSchema1, "application/vnd.wasm.config.v0+json", layer([]byte(wasm), media))
	}
	oci := func(data []byte, media types.MediaType) v1.Image {
		return imageOf(t, types.OCIManifestSchema1, types.OCIConfigJSON, layer(data, media))
	}
	gz := gzipOf(t, plain)
	index := func(entries ...mutate.IndexAddendum) v1.ImageIndex {
		return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), entries...)
	}
	on := func(os, arch string, image v1.Image) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: os, Architecture: arch}}}
	}
	other := oci(gzipOf(t, tarOf(t, entry{name: "bin/sh", content: "x"})), types.OCILayer)
	for name, what := range map[string]any{
		"cncf": artifact(mediaWasm), "istio": artifact("application/vnd.module.wasm.content.layer.v1+wasm"),
		"gzip": oci(gz, types.OCILayer), "tar": oci(plain, types.OCIUncompressedLayer), "zstd": oci(zstdOf(t, plain), types.OCILayerZStd),
		"docker":       imageOf(t, types.DockerManifestSchema2, types.DockerConfigJSON, layer(gz, types.DockerLayer)),
		"wasip1":       index(on("linux", "amd64", other), on("wasip1", "wasm", oci(gz, types.OCILayer))),
		"only":         index(on("linux", "s390x", oci(gz, types.OCILayer))),
		"machine":      index(on("linux", "amd64", oci(gz, types.OCILayer)), on("linux", "arm64", other)),
		"attestations": index(on("linux", "s390x", oci(gz, types.OCILayer)), on("unknown", "unknown", other)),
	} {
		t.Run(name, func(t *testing.T) {
			ref := address + "/" + name + ":v1"
			put(t, ref, what)
			image, err := pull(t.Context(), reference(t, ref), registry.Options{Platform: "amd64"})
			if err != nil {
				t.Fatal(err)
			}
			if len(image.Files) != 1 || string(image.Files[registry.ModuleName]) != wasm {
				t.Errorf("files %q", image.Files)
			}
		})
	}
}

// tarBlock is the size of a header.
const tarBlock = 512

func TestImagesWithoutAModule(t *testing.T) {
	address := open(t, devregistry.Options{}).Address
	oci := func(data []byte, media types.MediaType) v1.Image {
		return imageOf(t, types.OCIManifestSchema1, types.OCIConfigJSON, layer(data, media))
	}
	files := func(entries ...entry) v1.Image { return oci(gzipOf(t, tarOf(t, entries...)), types.OCILayer) }
	module := entry{name: registry.ModuleName, content: wasm}
	many := make([]entry, 1001)
	for i := range many {
		many[i] = entry{name: fmt.Sprint("sub/", i)}
	}
	var sum []entry
	for i := range 6 {
		sum = append(sum, entry{name: fmt.Sprint("part-", i), content: strings.Repeat("\x00", 1<<20-tarBlock)})
	}
	holes := func(format sparse.Format) v1.Image {
		return oci(gzipOf(t, sparse.Tar(format, registry.ModuleName, 3, 1<<20)), types.OCILayer)
	}
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: files(module), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}}},
		mutate.IndexAddendum{Add: files(module, entry{name: "a"}), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "riscv64"}}})
	tests := map[string]struct {
		what  any
		words []string
	}{
		"chart":      {oci([]byte("x"), "application/vnd.cncf.helm.chart.content.v1.tar+gzip"), []string{"helm.chart", "application/wasm", "ccmctl push"}},
		"two":        {imageOf(t, types.OCIManifestSchema1, types.OCIConfigJSON, layer(gzipOf(t, tarOf(t, module)), types.OCILayer), layer([]byte(wasm), mediaWasm)), []string{"2 layers", "one layer"}},
		"empty":      {imageOf(t, types.OCIManifestSchema1, types.OCIConfigJSON), []string{"0 layers"}},
		"platforms":  {index, []string{"2 images", "linux/s390x", "wasip1/wasm"}},
		"nested":     {mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: index}), []string{"an index in it"}},
		"link":       {files(module, entry{name: "x.wasm", content: "/etc/shadow", kind: tar.TypeSymlink}), []string{"x.wasm", "is a link"}},
		"device":     {files(entry{name: "provider.wasm", kind: tar.TypeChar}), []string{"is a link or a device"}},
		"link below": {files(module, entry{name: "sub/x", content: "/etc/shadow", kind: tar.TypeLink}), []string{"sub/x", "is a link"}},
		"long name":  {files(module, entry{name: strings.Repeat("n", 256)}), []string{"more than 255 bytes"}},
		"sum":        {files(sum...), []string{"after decompression"}},
		"holes":      {holes(sparse.Old), []string{"sparse file"}},
		"holes 0.0":  {holes(sparse.PAX00), []string{"sparse file"}},
		"holes 0.1":  {holes(sparse.PAX01), []string{"sparse file"}},
		"holes 1.0":  {holes(sparse.PAX10), []string{"sparse file"}},
		"twice":      {files(module, entry{name: "./" + registry.ModuleName, content: "other"}), []string{"twice"}},
		"many":       {files(many...), []string{"1000 entries"}},
		"large":      {files(entry{name: registry.ModuleName, content: strings.Repeat("x", 1<<20+1)}), []string{"more than 1048576 bytes"}},
		"bomb":       {files(entry{name: "sub/zeros", content: strings.Repeat("\x00", 6<<20)}, module), []string{"after decompression"}},
		"raw large":  {oci(bytes.Repeat([]byte("x"), 1<<20+1), mediaWasm), []string{"more than 1048576 bytes"}},
		"huge":       {oci(bytes.Repeat([]byte("x"), 6<<20), mediaWasm), []string{"of 6291456 bytes, more than"}},
		"not gzip":   {oci([]byte("text"), types.OCILayer), []string{"does not decompress"}},
		"half":       {oci(gzipOf(t, tarOf(t, module))[:40], types.OCILayer), []string{"no tar that can be read"}},
		"not a tar":  {oci(gzipOf(t, bytes.Repeat([]byte("text"), 512)), types.OCILayer), []string{"no tar that can be read"}},
		"long paper": {mutate.Annotations(files(module), map[string]string{"a": strings.Repeat("x", 40<<10)}), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ref := address + "/" + strings.ReplaceAll(name, " ", "-") + ":v1"
			put(t, ref, test.what)
			_, err := pull(t.Context(), reference(t, ref), registry.Options{Platform: "amd64", MaxFile: 1 << 20})
			wantError(t, err, registry.ReasonInvalid, append(test.words, "image "+ref)...)
		})
	}
}
