package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
)

// Content is the content of an image.
type Content struct {
	// Module is the decompressed module, named ModuleName in the image.
	Module []byte
	// Files are the other files by name: signature, configuration.
	Files map[string][]byte
	// Platforms are the node platforms that may mount the image as a volume, for example
	// linux/amd64.
	Platforms []string
	// Version and Source are annotations of the image, unless empty.
	Version, Source string
}

// ModuleName is the name of the module in an image that Pack makes.
const ModuleName = moduleName

// epoch is the time of everything in an image: equal content has equal digests.
func epoch() time.Time { return time.Unix(0, 0).UTC() }

// Pack makes an image per platform; they share one layer. The manager reads the layer, and a
// kubelet makes a volume of it.
func Pack(c Content) (v1.ImageIndex, error) {
	content, err := pack(c)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression))
	if err != nil {
		return nil, fmt.Errorf("make the layer: %w", err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, text := range c.Platforms {
		platform, err := v1.ParsePlatform(text)
		if err != nil || platform.OS == "" || platform.Architecture == "" {
			return nil, fmt.Errorf("the platform %.100q is not valid: write linux/amd64, for example", text)
		}
		image, err := imageOf(layer, *platform, c.annotations())
		if err != nil {
			return nil, fmt.Errorf("make the image for %s: %w", text, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	if len(c.Platforms) == 0 {
		return nil, errors.New("there is no platform: give one, for example linux/amd64")
	}
	return mutate.Annotations(index, c.annotations()).(v1.ImageIndex), nil
}

func imageOf(layer v1.Layer, platform v1.Platform, annotations map[string]string) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(image, mutate.Addendum{Layer: layer, MediaType: types.OCILayer, History: v1.History{Created: v1.Time{Time: epoch()}, CreatedBy: "ccmctl"}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant, config.Created = platform.OS, platform.Architecture, platform.Variant, v1.Time{Time: epoch()}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, err
	}
	return mutate.Annotations(image, annotations).(v1.Image), nil
}

// annotations name the module, so that a signature of the image covers it.
func (c Content) annotations() map[string]string {
	a := map[string]string{provenance.AnnotationModule: provenance.Digest(c.Module)}
	for key, value := range map[string]string{"org.opencontainers.image.version": c.Version, "org.opencontainers.image.source": c.Source} {
		if value != "" {
			a[key] = value
		}
	}
	return a
}

func pack(c Content) ([]byte, error) {
	files := map[string][]byte{moduleName: c.Module}
	maps.Copy(files, c.Files)
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name == "" || strings.ContainsAny(name, "/\x00") || strings.HasPrefix(name, ".") {
			return nil, fmt.Errorf("the name %.100q: a file in an image lies at its root, and begins with no dot", name)
		}
		if err := writeFile(w, name, files[name]); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}
