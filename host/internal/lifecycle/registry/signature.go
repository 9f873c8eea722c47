package registry

import (
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const (
	// maxSignatures bounds the signatures of one image that are looked at.
	maxSignatures = 8
	// maxPayload bounds what a signature is of, in bytes; cosign's has 250.
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

// signatures is the tag under which cosign puts those of an image.
func (c *Client) signatures(digest string) name.Reference {
	return c.ref.Context().Tag(strings.Replace(digest, ":", "-", 1) + ".sig")
}

// pullSignatures reads the signatures in the manifest of that digest. What is
// none is left out: who signs may have put more there than we know.
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

// signatureLayers are the layers of a manifest that are signatures.
func signatureLayers(manifest []byte) (layers []v1.Descriptor) {
	var d document
	if len(manifest) > maxManifest || json.Unmarshal(manifest, &d) != nil {
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
