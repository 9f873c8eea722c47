package registry

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Archive returns an index as an archive of an OCI layout, which container runtimes import
// under the name of the reference.
func Archive(ref Reference, index v1.ImageIndex) ([]byte, error) {
	a := archive{written: map[v1.Hash]bool{}}
	a.w = tar.NewWriter(&a.out)
	top, err := a.index(index)
	if err != nil {
		return nil, fmt.Errorf("make the archive: %w", err)
	}
	top.Annotations = map[string]string{"org.opencontainers.image.ref.name": ref.Identifier(), "io.containerd.image.name": ref.Name()}
	listed, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{top}})
	if err != nil {
		return nil, err
	}
	for _, f := range []struct {
		name string
		data []byte
	}{{"index.json", listed}, {"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)}} {
		if err := a.file(f.name, f.data); err != nil {
			return nil, err
		}
	}
	return a.out.Bytes(), a.w.Close()
}

// archive is an archive being written.
type archive struct {
	out     bytes.Buffer
	w       *tar.Writer
	written map[v1.Hash]bool
}

func (a *archive) index(index v1.ImageIndex) (v1.Descriptor, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return v1.Descriptor{}, err
	}
	for _, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			return v1.Descriptor{}, err
		}
		if err := a.image(image); err != nil {
			return v1.Descriptor{}, err
		}
	}
	raw, err := index.RawManifest()
	if err != nil {
		return v1.Descriptor{}, err
	}
	digest, err := index.Digest()
	if err != nil {
		return v1.Descriptor{}, err
	}
	return v1.Descriptor{MediaType: types.OCIImageIndex, Digest: digest, Size: int64(len(raw))}, a.blob(digest, raw)
}

func (a *archive) image(image v1.Image) error {
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	for _, layer := range layers {
		if err := a.layer(layer); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		digest func() (v1.Hash, error)
		raw    func() ([]byte, error)
	}{{image.ConfigName, image.RawConfigFile}, {image.Digest, image.RawManifest}} {
		digest, err := part.digest()
		if err != nil {
			return err
		}
		raw, err := part.raw()
		if err != nil {
			return err
		}
		if err := a.blob(digest, raw); err != nil {
			return err
		}
	}
	return nil
}

func (a *archive) layer(layer v1.Layer) error {
	digest, err := layer.Digest()
	if err != nil {
		return err
	}
	body, err := layer.Compressed()
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // in memory
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	return a.blob(digest, data)
}

// blob writes a blob once, however many images share it.
func (a *archive) blob(digest v1.Hash, data []byte) error {
	if a.written[digest] {
		return nil
	}
	a.written[digest] = true
	return a.file(path.Join("blobs", digest.Algorithm, digest.Hex), data)
}

func (a *archive) file(name string, data []byte) error {
	if err := a.w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), ModTime: epoch(), Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err := a.w.Write(data)
	return err
}
