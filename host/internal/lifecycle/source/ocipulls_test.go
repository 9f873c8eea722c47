package source_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/registry"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/test/devregistry"
)

// counting is a registry that counts how often blobs were asked for.
type counting struct {
	direct, ref registry.Reference // without the count, and with it
	layers      atomic.Int32
}

func newCounting(t *testing.T) *counting {
	t.Helper()
	r, direct, _ := registryWith(t, devregistry.Options{}, "first", registry.Options{})
	c := &counting{direct: direct}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: r.Address})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxy.ServeHTTP(w, r)
		if strings.Contains(r.URL.Path, "/blobs/") {
			c.layers.Add(1)
		}
	}))
	t.Cleanup(server.Close)
	var err error
	c.ref, err = registry.ParseReference(server.Listener.Addr().String() + "/p:v1")
	must(t, err)
	return c
}

// artifact has the tag stand for an artifact whose layer is the module.
func (c *counting) artifact(t *testing.T, module string) (digest string) {
	t.Helper()
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.wasm.config.v0+json")
	image, err := mutate.Append(image, mutate.Addendum{Layer: static.NewLayer([]byte(module), "application/wasm")})
	must(t, err)
	must(t, remote.Write(c.direct, image))
	hash, err := image.Digest()
	must(t, err)
	return hash.String()
}

type signingKey struct{ *ecdsa.PrivateKey }

func newSigningKey(t *testing.T) signingKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return signingKey{key}
}

func (k signingKey) policy(t *testing.T) *provenance.Policy {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(k.Public())
	must(t, err)
	policy, err := provenance.New(nil, []string{string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))})
	must(t, err)
	return policy
}

// sign signs an image as cosign does.
func (k signingKey) sign(t *testing.T, ref registry.Reference, digest string) {
	t.Helper()
	payload, err := provenance.Payload(ref.Context().String(), digest)
	must(t, err)
	sum := sha256.Sum256(payload)
	raw, err := ecdsa.SignASN1(rand.Reader, k.PrivateKey, sum[:])
	must(t, err)
	must(t, registry.PushSignature(t.Context(), ref, digest, registry.Signature{Payload: payload, Base64: base64.StdEncoding.EncodeToString(raw)}, registry.Options{}))
}

func (w *watcher) refused(t *testing.T, reason, words string) {
	t.Helper()
	l := w.next(t)
	var e *source.Error
	if !errors.As(l.err, &e) || e.Passing || e.Reason != reason || !strings.Contains(e.Error(), words) {
		t.Fatalf("told %+v, want %s with %q", l, reason, words)
	}
}

// Whoever may push to a tag, and has no key, has nothing of a layer read.
func TestWhatCannotPassIsNotFetched(t *testing.T) {
	ours, theirs := newSigningKey(t), newSigningKey(t)
	pinned, err := provenance.New([]string{"sha256:" + strings.Repeat("0", 64)}, nil)
	must(t, err)
	for name, test := range map[string]struct {
		policy *provenance.Policy
		push   func(t *testing.T, c *counting)
		reason string
		blobs  int32 // payloads of signatures
	}{
		"unsigned": {ours.policy(t), func(t *testing.T, c *counting) { c.artifact(t, "m") }, provenance.ReasonSignatureMissing, 0},
		"signed by others": {ours.policy(t), func(t *testing.T, c *counting) {
			theirs.sign(t, c.direct, c.artifact(t, "m"))
		}, provenance.ReasonSignatureInvalid, 1},
		"not pinned":            {pinned, func(t *testing.T, c *counting) { c.artifact(t, "m") }, provenance.ReasonDigestNotPinned, 0},
		"an archive not pinned": {pinned, func(*testing.T, *counting) {}, provenance.ReasonDigestNotPinned, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCounting(t)
			test.push(t, c)
			before := c.layers.Load()
			w := watchImage(t, source.OCIOptions{Reference: c.ref, Policy: func() *provenance.Policy { return test.policy }})
			w.reachable(t, "")
			w.refused(t, test.reason, "image "+c.ref.String()+": ")
			if n := c.layers.Load() - before; n != test.blobs {
				t.Errorf("%d blobs were fetched, want %d", n, test.blobs)
			}
		})
	}
}

// What a policy has refused is asked about again when there is another one,
// also of a reference that is asked once; and a good image is read at once.
func TestAnotherPolicyIsAskedAtOnce(t *testing.T) {
	c := newCounting(t)
	ours, theirs := newSigningKey(t), newSigningKey(t)
	ours.sign(t, c.direct, c.artifact(t, "module"))
	var policy atomic.Pointer[provenance.Policy]
	policy.Store(theirs.policy(t))
	renewed := make(chan struct{})
	w := watchImage(t, source.OCIOptions{Reference: c.ref, Once: true, Policy: policy.Load, Renewed: renewed})
	w.reachable(t, "")
	w.refused(t, provenance.ReasonSignatureInvalid, "with a trusted key")
	policy.Store(ours.policy(t))
	renewed <- struct{}{}
	w.module(t, "module")
	policy.Store(theirs.policy(t)) // is the loader's business now
	renewed <- struct{}{}
	renewed <- struct{}{} // the first one was taken
	w.nothing(t)
}

// pulls is a source.Pulls that may be told to refuse.
type pulls struct {
	mu      sync.Mutex
	said    []string
	refuses error
	layers  func() int32
	early   bool // a layer was fetched before Begin
}

func (p *pulls) Begin(_ context.Context, image string) (func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuses != nil {
		return nil, p.refuses
	}
	p.early = p.early || p.layers() > 0
	p.said = append(p.said, "begin "+image)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.said = append(p.said, "done")
	}, nil
}

func (p *pulls) told() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.said = nil }()
	return strings.Join(p.said, ", ")
}

func (p *pulls) refuse(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = err
}

// An image is recorded before it is fetched. What must not be read now is not
// fetched, is told of, and is tried at each interval; what served before comes
// back with its tag.
func TestPullsAreRecorded(t *testing.T) {
	c := newCounting(t)
	p := &pulls{layers: c.layers.Load}
	first := c.artifact(t, "first")
	w := watchImage(t, source.OCIOptions{Reference: c.ref, Interval: time.Minute, Pulls: p})
	w.reachable(t, "")
	w.module(t, "first")
	w.asleep(t)
	if told := p.told(); told != "begin "+first+", done" || p.early {
		t.Errorf("recorded: %s; a layer came first: %v", told, p.early)
	}
	w.look(t)
	if told := p.told(); told != "" {
		t.Errorf("recorded of what was read: %s", told)
	}
	p.refuse(errors.New("a manager ended while it was read"))
	before := c.layers.Load()
	c.artifact(t, "second")
	between(t, w.look(t), 48*time.Second, 54*time.Second)
	w.refused(t, source.ReasonPullHeld, "is not pulled: a manager ended while it was read")
	w.look(t)
	w.nothing(t)
	if n := c.layers.Load(); n != before {
		t.Errorf("%d blobs were fetched of what must not be read", n-before)
	}
	p.refuse(nil)
	c.artifact(t, "first")
	w.look(t)
	w.module(t, "first")
	if told := p.told(); told != "begin "+first+", done" {
		t.Errorf("recorded: %s", told)
	}
}

// An image that must not be read now is tried again, also one that is asked for
// once; the reason is that of the record.
func TestAHeldPullIsTriedAgain(t *testing.T) {
	c := newCounting(t)
	p := &pulls{layers: c.layers.Load, refuses: &source.Error{Reason: "PullSuspected", Err: errors.New("it ended a manager")}}
	w := watchImage(t, source.OCIOptions{Reference: c.ref, Once: true, Interval: time.Minute, Pulls: p})
	w.reachable(t, "")
	w.refused(t, "PullSuspected", "it ended a manager")
	w.asleep(t)
	p.refuse(nil)
	w.end <- time.Now()
	w.module(t, "first")
}
