package registry

import (
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Push writes images, and then their tag, so that the tag changes atomically. It returns
// their digest.
func Push(ctx context.Context, ref Reference, index v1.ImageIndex, o Options) (digest string, err error) {
	if ref.Digest() != "" {
		return "", fmt.Errorf("%s is a digest, which the push computes: give a tag", ref)
	}
	c, err := New(ref, o)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := remote.WriteIndex(ref.Reference, index, append(c.opts, remote.WithContext(ctx))...); err != nil {
		return "", c.explain(err)
	}
	hash, err := index.Digest()
	return hash.String(), err
}
