package image

import (
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// SignatureTag is where cosign looks for the signature of an image, in the
// image's repository.
func SignatureTag(digest v1.Hash) string { return digest.Algorithm + "-" + digest.Hex + ".sig" }

// Signature is an image that holds a signature as cosign stores it: the signed
// payload, and the signature in base64.
func Signature(payload []byte, signature string) (v1.Image, error) {
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	const mediaType = types.MediaType("application/vnd.dev.cosign.simplesigning.v1+json")
	return mutate.Append(image, mutate.Addendum{
		Layer: static.NewLayer(payload, mediaType), MediaType: mediaType,
		Annotations: map[string]string{"dev.cosignproject.cosign/signature": signature},
	})
}
