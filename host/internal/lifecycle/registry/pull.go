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

// Image is what was read.
type Image struct {
	// Digest is that of the image, or of the index that it was chosen from:
	// sha256:HEX, what the tag stands for.
	Digest string
	// Document is the manifest, or the index, which has that digest.
	Document []byte
	// Artifact is the digest of the layer that is the module itself, and "" of an
	// archive, in which others may lie beside the module.
	Artifact string
	// Files are those of a directory that a module comes from: by their names,
	// without those in subdirectories.
	Files map[string][]byte
	// Signatures are those of cosign that lie beside it, and Bundles those of
	// sigstore that refer to it, in JSON. Nobody has verified them.
	Signatures []Signature
	Bundles    [][]byte
}

// moduleName is the name of a module that is a layer.
const moduleName = "provider.wasm"

// Pull reads the image that the state names. An error is an *Error.
func (c *Client) Pull(ctx context.Context, s State) (*Image, error) {
	image, err := c.pull(ctx, s)
	if err != nil {
		return nil, c.explain(err)
	}
	return image, nil
}

// pull reads all that is small, has it verified, and reads the layer at last.
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
	// Invariant I8 (host/SECURITY.md): what cannot pass is not fetched.
	if c.verify != nil {
		if err := c.verify(image); err != nil {
			return nil, err
		}
	}
	image.Files, err = c.files(ctx, layer)
	return image, err
}

// describe reads what the image is made of.
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

// document reads a manifest or an index by its digest, which the library
// verifies.
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

// blob has a blob read, all of it, and is an error when it is not what its
// descriptor says. What was read before that counts for nothing.
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
	defer func() { _ = body.Close() }() // all of it was read, or there is an error
	raw := &kept{Reader: body}
	err = read(raw)
	// Invariant I1 (host/SECURITY.md): nothing is used before all of it fits its digest. What
	// did not arrive as it is says nothing about the image.
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

// arrived says why a blob did not arrive. The library has no type for a digest
// that differs.
func arrived(err error, d v1.Descriptor) error {
	switch {
	case errors.Is(err, errTooLong):
		return &Error{ReasonDigestMismatch, fmt.Errorf("%s has more bytes than its manifest says (%d): push the image again", d.Digest, d.Size)}
	case bytes.HasPrefix([]byte(err.Error()), []byte("error verifying")):
		return &Error{ReasonDigestMismatch, fmt.Errorf("the registry sends something else for %s: push the image again", d.Digest)}
	}
	return err
}

// kept remembers the error of a reader, and how much was read.
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

// read reads the files of a layer of that type.
func (l limits) read(r io.Reader, kind types.MediaType, size int64) (map[string][]byte, error) {
	if isModule(kind) {
		module, err := l.file(r, moduleName, size)
		return map[string][]byte{moduleName: module}, err
	}
	return l.untar(r, compressions()[kind])
}
