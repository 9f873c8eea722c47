package registry

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// PushSignature adds a signature of the image with that digest under cosign's tag.
func PushSignature(ctx context.Context, ref Reference, digest string, s Signature, o Options) error {
	c, err := New(ref, o)
	if err != nil {
		return err
	}
	defer c.Close()
	tag := c.signatures(digest)
	opts := append(c.opts, remote.WithContext(ctx))
	image, err := signaturesOf(tag, opts)
	if err != nil {
		return c.explain(err)
	}
	image, err = mutate.Append(image, mutate.Addendum{
		Layer:       static.NewLayer(s.Payload, mediaTypePayload),
		Annotations: map[string]string{annotationSignature: s.Base64},
	})
	if err != nil {
		return fmt.Errorf("make the signature: %w", err)
	}
	if err := remote.Write(tag, image, opts...); err != nil {
		return c.explain(err)
	}
	return nil
}

// signaturesOf returns the existing signatures.
func signaturesOf(tag name.Reference, opts []remote.Option) (v1.Image, error) {
	image, err := remote.Image(tag, opts...)
	if isMissing(err) {
		return mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), nil
	}
	return image, err
}
