package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image is a pulled image.
type Image struct {
	// Digest is the image's, or that of its index: sha256:HEX, the target of the tag.
	Digest string
	// Document is the manifest or the index with that digest.
	Document []byte
	// Artifact is the digest of a layer that is the module itself, "" for an archive, which may
	// have other files beside the module.
	Artifact string
	// Files are the files by name, as of a directory: without subdirectories.
	Files map[string][]byte
	// Signatures are cosign's beside the image, and Bundles the sigstore bundles that refer to
	// it, in JSON. Neither is verified.
	Signatures []Signature
	Bundles    [][]byte
}

// moduleName is the file name given to a module layer.
const moduleName = "provider.wasm"

// Pull reads the image of the state. An error is an *Error.
func (c *Client) Pull(ctx context.Context, s State) (*Image, error) {
	image, err := c.pull(ctx, s)
	if err != nil {
		return nil, c.explain(err)
	}
	return image, nil
}

// pull reads the small parts, has them verified, and reads the layer last.
func (c *Client) pull(ctx context.Context, s State) (*Image, error) {
	image, layer, err := c.describe(ctx, s.Image)
	if err != nil {
		return nil, err
	}
	if s.Signatures != "" {
		if image.Signatures, err = c.pullSignatures(ctx, s.Signatures); err != nil {
			return nil, err
		}
	}
	if s.Bundles != "" {
		if image.Bundles, err = c.pullBundles(ctx, s.Image); err != nil {
			return nil, err
		}
	}
	// Invariant I8 (host/SECURITY.md): a layer that cannot pass is not fetched.
	if c.verify != nil {
		if err := c.verify(image); err != nil {
			return nil, err
		}
	}
	image.Files, err = c.files(ctx, layer)
	return image, err
}

// describe reads the manifest of an image.
func (c *Client) describe(ctx context.Context, digest string) (*Image, v1.Descriptor, error) {
	data, d, err := c.document(ctx, digest)
	if err != nil {
		return nil, v1.Descriptor{}, err
	}
	image := &Image{Digest: digest, Document: data}
	if d.isIndex() {
		chosen, err := d.choose(c.arch)
		if err != nil {
			return nil, v1.Descriptor{}, err
		}
		if _, d, err = c.document(ctx, chosen.Digest.String()); err != nil {
			return nil, v1.Descriptor{}, err
		}
		if d.isIndex() {
			return nil, v1.Descriptor{}, invalid("its index has an index in it: leave one")
		}
	}
	layer := d.Layers[0]
	if isModule(layer.MediaType) {
		image.Artifact = layer.Digest.String()
	}
	return image, layer, checkDescriptor(&layer, c.limits.layer())
}

// document reads a manifest or an index by its digest, which the library verifies.
func (c *Client) document(ctx context.Context, digest string) ([]byte, *document, error) {
	got, err := c.puller.Get(ctx, c.ref.Context().Digest(digest))
	if err != nil {
		return nil, nil, err
	}
	d, err := decode(got.Manifest, got.MediaType)
	return got.Manifest, d, err
}

// files reads the files of a layer.
func (c *Client) files(ctx context.Context, layer v1.Descriptor) (map[string][]byte, error) {
	var files map[string][]byte
	err := c.blob(ctx, layer, func(r io.Reader) (err error) {
		files, err = c.limits.read(r, layer.MediaType, layer.Size)
		return err
	})
	return files, err
}

// blob passes all of a blob to read, and fails if the blob does not match its descriptor.
// The results of read are then void.
func (c *Client) blob(ctx context.Context, d v1.Descriptor, read func(io.Reader) error) (err error) {
	c.guard.expect("/v2/"+c.ref.Context().RepositoryStr()+"/blobs/"+d.Digest.String(), d.Size)
	layer, err := c.puller.Layer(ctx, c.ref.Context().Digest(d.Digest.String()))
	if err != nil {
		return err
	}
	body, err := layer.Compressed()
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // by then it was read completely, or failed
	raw := &kept{Reader: body}
	err = read(raw)
	// Invariant I1 (host/SECURITY.md): content is used only after all of it matched its digest.
	// A damaged transfer says nothing about the image.
	_, copyErr := io.Copy(io.Discard, raw)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case copyErr != nil:
		return arrived(copyErr, d)
	}
	if raw.read != d.Size {
		return &Error{ReasonDigestMismatch, fmt.Errorf("%s has %d bytes, its manifest says %d: push the image again", d.Digest, raw.read, d.Size)}
	}
	return err
}

// arrived explains an incomplete or wrong blob. The library has no error type for a digest
// mismatch.
func arrived(err error, d v1.Descriptor) error {
	switch {
	case errors.Is(err, errTooLong):
		return &Error{ReasonDigestMismatch, fmt.Errorf("%s has more bytes than its manifest says (%d): push the image again", d.Digest, d.Size)}
	case bytes.HasPrefix([]byte(err.Error()), []byte("error verifying")):
		return &Error{ReasonDigestMismatch, fmt.Errorf("the registry sends something else for %s: push the image again", d.Digest)}
	}
	return err
}

// kept records a reader's error and the number of bytes read.
type kept struct {
	io.Reader
	read int64
	err  error
}

// Read is io.Reader's.
func (k *kept) Read(p []byte) (int, error) {
	if k.err != nil {
		return 0, k.err
	}
	n, err := k.Reader.Read(p)
	k.read += int64(n)
	k.err = err
	return n, err
}

// read reads the files of a layer of that media type.
func (l limits) read(r io.Reader, kind types.MediaType, size int64) (map[string][]byte, error) {
	if isModule(kind) {
		module, err := l.file(r, moduleName, size)
		return map[string][]byte{moduleName: module}, err
	}
	return l.untar(r, compressions()[kind])
}
