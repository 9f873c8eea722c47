//go:build node

package node_test

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const pauseImage = "localhost/wasm-ccm/pause:1"

// pack writes an image of some files, as an archive that ctr imports. The
// entrypoint is "" when nothing of it is to run.
func pack(t *testing.T, archive, reference, entrypoint string, files map[string][]byte) {
	t.Helper()
	tag, err := name.NewTag(reference)
	if err != nil {
		t.Fatal(err)
	}
	content := tarred(t, files)
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	if entrypoint != "" {
		config.Config = v1.Config{Entrypoint: []string{entrypoint}}
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(archive, tag, image); err != nil {
		t.Fatal(err)
	}
}

func tarred(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// pauseArchive packs the container that holds a pod's namespaces.
func pauseArchive(t *testing.T) string {
	t.Helper()
	archive := filepath.Join(data(), "pause.tar")
	pack(t, archive, pauseImage, "/pause", map[string][]byte{"pause": readFile(t, built("pause"))})
	return archive
}

// managerArchive is that of `make image`.
func managerArchive() string { return built("cloud-controller-manager.oci.tar") }

// managerTag is the tag that the archive gives to the image.
func managerTag(t *testing.T) string {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(readFile(t, managerArchive()))); ; {
		header, err := r.Next()
		if err != nil {
			t.Fatalf("%s: %v", managerArchive(), err)
		}
		if header.Name != "index.json" {
			continue
		}
		index, err := v1.ParseIndexManifest(r)
		if err != nil || len(index.Manifests) != 1 {
			t.Fatalf("%s: %d images, %v", managerArchive(), len(index.Manifests), err)
		}
		tag, err := name.NewTag(index.Manifests[0].Annotations["io.containerd.image.name"])
		if err != nil {
			t.Fatal(err)
		}
		return tag.TagStr()
	}
}
