package image

import (
	"bytes"
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// InToto is the media type of an attestation, a statement of in-toto.
const InToto = types.MediaType("application/vnd.in-toto+json")

// Attestation is what somebody says of an image.
type Attestation struct {
	// PredicateType is the one in the statement.
	PredicateType string
	// Statement is an in-toto statement in JSON. Its subject is the image.
	Statement []byte
}

// Platform is the image of one architecture and what is said of it.
type Platform struct {
	Architecture string
	Image        v1.Image
	Attestations []Attestation
}

// Index makes one index of the images. Their attestations follow as BuildKit
// stores them: manifests in the index for a platform that nobody has, which
// name their image. So they go where the index goes, by any tool.
func Index(platforms []Platform, o Options) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: p.Image, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: "linux", Architecture: p.Architecture}}})
	}
	for _, p := range platforms {
		digest, err := p.Image.Digest()
		if err != nil {
			return nil, err
		}
		said, err := attestations(p.Attestations)
		if err != nil {
			return nil, fmt.Errorf("attestations of linux/%s: %w", p.Architecture, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: said, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"},
			Annotations: map[string]string{
				"vnd.docker.reference.type":   "attestation-manifest",
				"vnd.docker.reference.digest": digest.String(),
			}}})
	}
	return newSpecIndex(mutate.Annotations(index, Labels(o)).(v1.ImageIndex))
}

// specIndex is an index whose JSON is as the types of the OCI specification
// write it. Tools that copy an index write it anew by these types: in another
// order of fields the copy would have another digest, and no signature.
type specIndex struct {
	images
	raw []byte
}

// images is an index with a name that is none of its methods.
type images = interface{ v1.ImageIndex }

func newSpecIndex(index v1.ImageIndex) (v1.ImageIndex, error) {
	manifest, err := index.RawManifest()
	if err != nil {
		return nil, err
	}
	var spec ocispec.Index
	if err := json.Unmarshal(manifest, &spec); err != nil {
		return nil, err
	}
	for i := range spec.Manifests {
		spec.Manifests[i].ArtifactType = "" // they are images; older tools drop the field
	}
	raw, err := json.Marshal(spec)
	return specIndex{images: index, raw: raw}, err
}

// RawManifest is the JSON of the index.
func (x specIndex) RawManifest() ([]byte, error) { return x.raw, nil }

// IndexManifest is the index, decoded.
func (x specIndex) IndexManifest() (*v1.IndexManifest, error) {
	return v1.ParseIndexManifest(bytes.NewReader(x.raw))
}

// Digest is that of the JSON.
func (x specIndex) Digest() (v1.Hash, error) {
	digest, _, err := v1.SHA256(bytes.NewReader(x.raw))
	return digest, err
}

// Size is that of the JSON, in bytes.
func (x specIndex) Size() (int64, error) { return int64(len(x.raw)), nil }

func attestations(all []Attestation) (v1.Image, error) {
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	for _, a := range all {
		var err error
		if image, err = mutate.Append(image, mutate.Addendum{
			Layer: static.NewLayer(a.Statement, InToto), MediaType: InToto,
			Annotations: map[string]string{"in-toto.io/predicate-type": a.PredicateType},
		}); err != nil {
			return nil, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.History = "unknown", "unknown", nil
	return mutate.ConfigFile(image, config)
}
