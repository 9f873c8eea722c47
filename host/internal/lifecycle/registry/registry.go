// Package registry reads a provider's files from an OCI registry, and makes and
// writes images of them. An image is one of:
//   - an image of containers with one layer, a tar, whose files are those of a
//     directory that a module comes from, so that a volume can be made of it, too;
//   - an artifact with one layer, the module itself: the CNCF's (application/wasm)
//     or Istio's (application/vnd.module.wasm.content.layer.v1+wasm).
//
// Every size, count and time is bounded. What is read fits the digests that name
// it. Credentials go to the registry, over TLS or loopback, and to a token server
// of its domain.
package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Reference names an image: HOST[:PORT]/PATH:TAG or HOST[:PORT]/PATH@sha256:HEX.
type Reference struct{ name.Reference }

// maxReference bounds the text of a reference, in bytes.
const maxReference = 512

// ParseReference reads a reference. It fills in neither a registry nor a tag.
func ParseReference(text string) (Reference, error) {
	const form = "write HOST[:PORT]/PATH:TAG or HOST[:PORT]/PATH@sha256:HEX, for example registry.example.com/providers/mycloud:v1"
	if len(text) > maxReference {
		return Reference{}, fmt.Errorf("it has more than %d bytes: %s", maxReference, form)
	}
	if strings.Contains(text, "://") {
		return Reference{}, fmt.Errorf("it is an URL: %s", form)
	}
	ref, err := name.ParseReference(text, name.StrictValidation)
	if err != nil || strings.Contains("/"+ref.Context().RepositoryStr()+"/", "/../") || strings.Contains(ref.Context().RegistryStr(), "@") {
		return Reference{}, errors.New(form)
	}
	if d, ok := ref.(name.Digest); ok && !strings.HasPrefix(d.DigestStr(), "sha256:") {
		return Reference{}, errors.New("its digest is not one of sha256: " + form)
	}
	return Reference{ref}, nil
}

// Digest is the digest of a reference by digest, "" for a tag.
func (r Reference) Digest() string {
	if d, ok := r.Reference.(name.Digest); ok {
		return d.DigestStr()
	}
	return ""
}

// Host is the registry's, with its port if it has one.
func (r Reference) Host() string { return r.Context().RegistryStr() }

// Options of a Client. The zero value of a field is its default.
type Options struct {
	// CABundle holds certificates in PEM that verify the registry, in place of the system's.
	CABundle string
	// Keys have the credentials; nil: none.
	Keys authn.Keychain
	// KeysOf tells people the origin of the credentials.
	KeysOf string
	// AddKeys is the command that adds a credential, without the registry's name.
	AddKeys string
	// UserAgent identifies the client in the registry's log.
	UserAgent string
	// MaxFile bounds each file, in bytes, and the module. Default 64 MiB.
	MaxFile int64
	// Keep, unless nil, may take the content of a file of the declared size, and reports whether
	// it did: then Files has only its name. Otherwise it reads nothing. The content is void if
	// Pull fails. Its own error becomes Pull's, with ReasonNotKept.
	Keep func(name string, size int64, content io.Reader) (taken bool, err error)
	// Verify, unless nil, checks an image without its files, before its layer is fetched. Its
	// error becomes Pull's, with the reason of package provenance.
	Verify func(*Image) error
	// Platform selects the image of an index, without operating system: amd64, arm64. Default:
	// this program's.
	Platform string
}

// Client reads one image. It is for one goroutine, and for one look at the registry: its
// requests are limited.
type Client struct {
	ref    Reference
	limits limits
	verify func(*Image) error // may be nil
	arch   string
	guard  *guard
	puller *remote.Puller
	opts   []remote.Option
	// credentials tells people which credentials were used.
	credentials string
}

// New returns the client for an image. It sends nothing yet. Close ends its connections.
func New(ref Reference, o Options) (*Client, error) {
	g, err := newGuard(ref, o.CABundle)
	if err != nil {
		return nil, invalid("%s: %w", ref, err)
	}
	// The caller retries, not the library.
	opts := []remote.Option{remote.WithTransport(g), remote.WithJobs(1), remote.WithUserAgent(o.UserAgent),
		remote.WithRetryBackoff(remote.Backoff{Steps: 1}), remote.WithRetryPredicate(func(error) bool { return false }), remote.WithRetryStatusCodes()}
	if o.Keys != nil {
		opts = append(opts, remote.WithAuthFromKeychain(o.Keys))
	}
	puller, err := remote.NewPuller(opts...)
	if err != nil {
		return nil, fmt.Errorf("the registry %s: %w", ref.Host(), err)
	}
	return &Client{ref: ref, limits: newLimits(o.MaxFile, o.Keep), verify: o.Verify, arch: o.Platform, guard: g, puller: puller, opts: opts, credentials: credentials(ref, o)}, nil
}

// credentials describes what a denying registry was sent.
func credentials(ref Reference, o Options) string {
	if o.Keys == nil {
		return "it is private, or not there; name a Secret of the type kubernetes.io/dockerconfigjson with the right to pull it (source.oci.pullSecret)"
	}
	if auth, err := o.Keys.Resolve(ref.Context()); err == nil && auth == authn.Anonymous {
		return "the " + o.KeysOf + " has no entry for " + ref.Context().String() + "; add one (" + o.AddKeys + ref.Host() + ")"
	}
	return "it does not take the credentials of the " + o.KeysOf + ", or they have no right to pull it; correct them, or grant it"
}

// Close ends the connections.
func (c *Client) Close() { c.guard.inner.CloseIdleConnections() }

// State is the cheap-to-read state of an image in the registry.
type State struct {
	// Image is the digest of the image, sha256:HEX.
	Image string
	// Signatures is the digest of cosign's signatures beside the image, Bundles that of the list
	// of referrers; "" for none.
	Signatures, Bundles string
}

// Resolve returns the current target of the reference. An error is an *Error.
func (c *Client) Resolve(ctx context.Context) (State, error) {
	image, err := c.resolve(ctx, c.ref.Reference)
	if err != nil {
		return State{}, c.explain(err)
	}
	s := State{Image: image}
	if s.Signatures, err = c.resolve(ctx, c.signatures(image)); err != nil && !isMissing(err) {
		return State{}, c.explain(err)
	}
	if _, s.Bundles, err = c.referrers(ctx, image); err != nil {
		return State{}, c.explain(err)
	}
	return s, nil
}

// resolve uses HEAD, which rate limits do not count, and GET where HEAD returns no digest.
func (c *Client) resolve(ctx context.Context, ref name.Reference) (string, error) {
	if d, err := c.puller.Head(ctx, ref); err == nil {
		return d.Digest.String(), nil
	} else if isMissing(err) {
		return "", err
	}
	d, err := c.puller.Get(ctx, ref)
	if err != nil {
		return "", err
	}
	return d.Digest.String(), nil
}

// isMissing reports whether the registry has no such manifest, or denies it, which for a
// signature is the same.
func isMissing(err error) bool {
	var t *transport.Error
	return errors.As(err, &t) && (t.StatusCode == http.StatusNotFound || t.StatusCode == http.StatusForbidden || t.StatusCode == http.StatusUnauthorized)
}
