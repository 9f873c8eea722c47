package registry

import (
	"context"
	"io"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
)

const (
	// maxSignatures bounds the examined signatures of one image.
	maxSignatures = 8
	// maxPayload bounds a signed payload, in bytes; cosign's has 250.
	maxPayload = 4 << 10

	mediaTypePayload    = "application/vnd.dev.cosign.simplesigning.v1+json"
	annotationSignature = "dev.cosignproject.cosign/signature"
)

// Signature is one of cosign: base64 of a signature of the payload, which names
// the digest of an image.
type Signature struct {
	Payload []byte
	Base64  string
}

// signatures is cosign's tag for the signatures of an image.
func (c *Client) signatures(digest string) name.Reference {
	return c.ref.Context().Tag(strings.Replace(digest, ":", "-", 1) + ".sig")
}

// pullSignatures reads the signatures in the manifest of that digest. Other layers are
// ignored: signers may add kinds that we do not know.
func (c *Client) pullSignatures(ctx context.Context, digest string) ([]Signature, error) {
	got, err := c.puller.Get(ctx, c.ref.Context().Digest(digest))
	if err != nil {
		return nil, err
	}
	var all []Signature
	for _, d := range signatureLayers(got.Manifest) {
		s := Signature{Base64: d.Annotations[annotationSignature]}
		err := c.blob(ctx, d, func(r io.Reader) (err error) {
			s.Payload, err = io.ReadAll(r)
			return err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// signatureLayers returns the layers of a manifest that are signatures.
func signatureLayers(manifest []byte) (layers []v1.Descriptor) {
	var d document
	if len(manifest) > maxManifest || provenance.ReadJSON(manifest, &d) != nil {
		return nil
	}
	for i := range d.Layers {
		l := d.Layers[i]
		if l.MediaType == mediaTypePayload && l.Annotations[annotationSignature] != "" && checkDescriptor(&l, maxPayload) == nil && len(layers) < maxSignatures {
			layers = append(layers, l)
		}
	}
	return layers
}
