package registry

import (
	"encoding/json"
	"fmt"
	"mime"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
)

const (
	// maxManifest bounds a manifest and an index, in bytes: those of modules
	// have 1 KiB, and it is kept with the signature.
	maxManifest = 32 << 10
	// maxPlatforms bounds the entries of an index.
	maxPlatforms = 64

	// The media types of a module layer, and of the configuration of the CNCF's artifacts.
	mediaTypeModule      = "application/wasm"
	mediaTypeIstioModule = "application/vnd.module.wasm.content.layer.v1+wasm"
)

// compressions are those of the tar layer types.
func compressions() map[types.MediaType]string {
	return map[types.MediaType]string{
		types.OCIUncompressedLayer: "", types.DockerUncompressedLayer: "",
		types.OCILayer: "gzip", types.DockerLayer: "gzip", types.OCILayerZStd: "zstd",
	}
}

const accepted = "use an image with one layer (" + string(types.OCILayer) + ", " + string(types.OCILayerZStd) + ", " + string(types.OCIUncompressedLayer) + " or Docker's) that holds provider.wasm, " +
	"or an artifact with one layer " + mediaTypeModule + " or " + mediaTypeIstioModule + "; ccmctl push makes one"

// document is a manifest or an index.
type document struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     types.MediaType   `json:"mediaType"`
	Layers        []v1.Descriptor   `json:"layers"`
	Manifests     []v1.Descriptor   `json:"manifests"`
	FSLayers      []json.RawMessage `json:"fsLayers"`
	Annotations   map[string]string `json:"annotations"`
}

// decode reads a manifest or an index of that content type.
func decode(data []byte, contentType types.MediaType) (*document, error) {
	if len(data) > maxManifest {
		return nil, invalid("its manifest has more than %d bytes", maxManifest)
	}
	var d document
	if err := provenance.ReadJSON(data, &d); err != nil {
		return nil, invalid("its manifest is not valid JSON: %w", err)
	}
	said, _, err := mime.ParseMediaType(string(contentType))
	if err != nil {
		said = string(contentType)
	}
	kind := types.MediaType(said)
	switch {
	// Invariant I5 (host/SECURITY.md): a manifest has one reading.
	case d.MediaType != "" && d.MediaType != kind:
		return nil, invalid("the registry calls its manifest %.100q, and it calls itself %.100q: push it again", kind, d.MediaType)
	case d.SchemaVersion != 2 || len(d.FSLayers) > 0:
		return nil, invalid("its manifest is not of schema version 2: push it with a newer tool")
	case len(d.Layers) > 0 && len(d.Manifests) > 0:
		return nil, invalid("its manifest is an image and an index at once")
	case kind.IsIndex():
		return &d, d.checkIndex()
	case kind.IsImage():
		return &d, d.checkImage()
	}
	return nil, invalid("its manifest is of the type %.100q: %s", kind, accepted)
}

func (d *document) isIndex() bool { return len(d.Manifests) > 0 }

func (d *document) checkIndex() error {
	if len(d.Manifests) == 0 || len(d.Manifests) > maxPlatforms {
		return invalid("its index has %d images: 1 to %d can be chosen from", len(d.Manifests), maxPlatforms)
	}
	for i := range d.Manifests {
		if err := checkDescriptor(&d.Manifests[i], maxManifest); err != nil {
			return err
		}
	}
	return nil
}

func (d *document) checkImage() error {
	switch {
	case len(d.Layers) != 1:
		return invalid("it has %d layers: %s", len(d.Layers), accepted)
	case !isModule(d.Layers[0].MediaType) && !isTar(d.Layers[0].MediaType):
		return invalid("its layer is of the type %.100q: %s", d.Layers[0].MediaType, accepted)
	case len(d.Layers[0].URLs) > 0:
		return invalid("its layer lies elsewhere than in the registry (urls): %s", accepted)
	}
	return nil
}

func isModule(t types.MediaType) bool { return t == mediaTypeModule || t == mediaTypeIstioModule }

func isTar(t types.MediaType) bool {
	_, ok := compressions()[t]
	return ok
}

// checkDescriptor requires a verifiable digest and a size within the limit.
func checkDescriptor(d *v1.Descriptor, most int64) error {
	if d.Digest.Algorithm != "sha256" {
		return invalid("its manifest names something by a digest other than sha256: push it with another tool")
	}
	if d.Size < 0 || d.Size > most {
		return invalid("its manifest names something of %d bytes, more than %d", d.Size, most)
	}
	return nil
}

// choose returns the image of an index with the module: the one for WebAssembly, the only
// one, or the one for this machine.
func (d *document) choose(arch string) (v1.Descriptor, error) {
	images := slices.DeleteFunc(slices.Clone(d.Manifests), func(m v1.Descriptor) bool {
		return m.Platform != nil && m.Platform.OS == "unknown" // buildx attestations
	})
	if arch == "" {
		arch = runtime.GOARCH
	}
	for _, fits := range []func(*v1.Platform) bool{
		func(p *v1.Platform) bool { return p != nil && p.Architecture == "wasm" },
		func(*v1.Platform) bool { return len(images) == 1 },
		func(p *v1.Platform) bool { return p != nil && p.OS == "linux" && p.Architecture == arch },
	} {
		var found []v1.Descriptor
		for _, m := range images {
			if fits(m.Platform) {
				found = append(found, m)
			}
		}
		if len(found) == 1 {
			return found[0], nil
		}
	}
	return v1.Descriptor{}, invalid("its index has %s: leave one image, or one for wasip1/wasm, or one for linux/%s", platforms(images), arch)
}

func platforms(images []v1.Descriptor) string {
	const most = 8
	var names []string
	for _, m := range images[:min(len(images), most)] {
		if m.Platform == nil {
			names = append(names, "none")
			continue
		}
		names = append(names, fmt.Sprintf("%.20q", m.Platform.OS+"/"+m.Platform.Architecture))
	}
	return fmt.Sprintf("%d images (%s)", len(images), strings.Join(names, ", "))
}
