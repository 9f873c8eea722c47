package registry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
)

const (
	// maxBundle bounds a sigstore bundle, in bytes: with a key it has 1 KiB, with an identity it
	// includes certificates and log entries.
	maxBundle = 32 << 10
	// mediaTypeBundle is the prefix of the type of every bundle version.
	mediaTypeBundle = "application/vnd.dev.sigstore.bundle"
)

// referrers returns the manifests of the bundles that refer to an image, and a digest of
// their list, "" for none: by the referrers API, or by its fallback tag. A registry with
// neither has none.
func (c *Client) referrers(ctx context.Context, digest string) (bundles []v1.Descriptor, list string, err error) {
	index, err := remote.Referrers(c.ref.Context().Digest(digest), remote.Reuse(c.puller), remote.WithContext(ctx))
	var answer *transport.Error
	if errors.As(err, &answer) && answer.StatusCode < http.StatusInternalServerError && answer.StatusCode != http.StatusTooManyRequests {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, "", invalid("the list of what refers to it is not valid: %w", err)
	}
	for i := range manifest.Manifests {
		m := manifest.Manifests[i]
		if strings.HasPrefix(m.ArtifactType, mediaTypeBundle) && checkDescriptor(&m, maxManifest) == nil && len(bundles) < maxSignatures {
			bundles = append(bundles, m)
			list += m.Digest.String()
		}
	}
	return bundles, list, nil
}

// pullBundles reads the bundles that refer to an image. Other artifacts are ignored.
func (c *Client) pullBundles(ctx context.Context, image string) (all [][]byte, err error) {
	found, _, err := c.referrers(ctx, image)
	if err != nil {
		return nil, err
	}
	for _, m := range found {
		got, err := c.puller.Get(ctx, c.ref.Context().Digest(m.Digest.String()))
		if err != nil {
			return nil, err
		}
		d, ok := bundleLayer(got.Manifest)
		if !ok {
			continue
		}
		var data []byte
		err = c.blob(ctx, d, func(r io.Reader) (err error) {
			data, err = io.ReadAll(r)
			return err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

// bundleLayer returns the layer of a manifest that is a bundle.
func bundleLayer(manifest []byte) (v1.Descriptor, bool) {
	var d document
	if len(manifest) > maxManifest || provenance.ReadJSON(manifest, &d) != nil || len(d.Layers) != 1 {
		return v1.Descriptor{}, false
	}
	l := d.Layers[0]
	return l, strings.HasPrefix(string(l.MediaType), mediaTypeBundle) && checkDescriptor(&l, maxBundle) == nil
}
