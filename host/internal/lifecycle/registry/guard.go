package registry

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/publicsuffix"
)

const (
	// maxRequests bounds the requests of one look, since the library follows any number of
	// redirects: a token, an index, a layer, signatures and redirects take some twenty.
	maxRequests = 100
	// Timeouts of one request; the context bounds all together.
	dialTimeout   = 10 * time.Second
	headerTimeout = 30 * time.Second
	idleTimeout   = 5 * time.Second
)

// guard is the HTTP transport: it bounds the registry's answers, and sees each request after
// the library has followed challenges and redirects.
type guard struct {
	inner    *http.Transport
	registry string // host, with the port if the reference has one
	requests atomic.Int32
	blob     atomic.Pointer[expected] // nil: none
}

// expected is the only blob that may be longer than a manifest.
type expected struct {
	path string
	size int64
}

// refusedError is the error of a request that is not sent.
type refusedError struct{ why string }

func (e *refusedError) Error() string { return e.why }

// errTooLong is the error of an answer over its limit.
var errTooLong = errors.New("the answer is longer than it may be")

func newGuard(ref Reference, bundle string) (*guard, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if bundle != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(bundle)) {
			return nil, errors.New("the caBundle has no certificate in PEM")
		}
	}
	inner := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true,
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: headerTimeout, IdleConnTimeout: idleTimeout,
		MaxResponseHeaderBytes: 64 << 10, MaxConnsPerHost: 4,
	}
	return &guard{inner: inner, registry: ref.Host()}, nil
}

// expect raises the limit for that blob to its declared size.
func (g *guard) expect(path string, size int64) { g.blob.Store(&expected{path, size}) }

// most bounds the answer to a request, in bytes: a manifest's limit, also for a token
// server, and a blob's declared size, wherever the registry redirects for it.
func (g *guard) most(r *http.Request) int64 {
	for r.Response != nil && r.Response.Request != nil {
		r = r.Response.Request
	}
	blob := g.blob.Load()
	// Invariant I9 (host/SECURITY.md): no other answer has the limit of a layer. Requests to a token
	// server have a query.
	if blob == nil || r.Method != http.MethodGet || r.URL.Host != g.registry || r.URL.Path != blob.path || r.URL.RawQuery != "" {
		return maxManifest
	}
	return max(blob.size, maxManifest)
}

// RoundTrip is http.RoundTripper's.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := g.check(r); err != nil {
		return nil, err
	}
	response, err := g.inner.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = &bounded{ReadCloser: response.Body, left: g.most(r)}
	if response.StatusCode >= http.StatusMultipleChoices { // only the status matters
		response.Body = cut{io.LimitReader(response.Body, maxManifest), response.Body}
	}
	return response, nil
}

// check refuses requests that would leak a credential, and endless ones.
func (g *guard) check(r *http.Request) error {
	own := r.URL.Host == g.registry
	plain := r.URL.Scheme == "http" && own && isLoopback(r.URL)
	switch {
	// Invariant I3 (host/SECURITY.md): a look at the registry ends, whatever it answers.
	case g.requests.Add(1) > maxRequests:
		return &refusedError{fmt.Sprintf("the registry %s wants more than %d requests for one image", g.registry, maxRequests)}
	// Invariant I4 (host/SECURITY.md): plain HTTP is for this machine only, and credentials go
	// only to the registry and to its own token server.
	case r.URL.Scheme != "https" && !plain:
		return &refusedError{fmt.Sprintf("no request to %s://%s: plain HTTP is for registries on loopback only", r.URL.Scheme, r.URL.Host)}
	case own || !carriesSecret(r):
		return nil
	case !sameDomain(r.URL.Hostname(), hostname(g.registry)):
		return &refusedError{fmt.Sprintf("the registry %s sends for tokens to %s, which is not of its domain: credentials do not go there", g.registry, r.URL.Host)}
	}
	return nil
}

// carriesSecret reports whether a request may hold a credential or a token.
func carriesSecret(r *http.Request) bool {
	return r.Header.Get("Authorization") != "" || r.Method != http.MethodGet && r.Method != http.MethodHead
}

func isLoopback(u *url.URL) bool {
	if strings.EqualFold(u.Hostname(), "localhost") {
		return true
	}
	a, err := netip.ParseAddr(u.Hostname())
	return err == nil && a.IsLoopback()
}

func hostname(host string) string { return (&url.URL{Host: host}).Hostname() }

// sameDomain reports whether two names have one owner: they are equal, or below the same
// registrable name.
func sameDomain(a, b string) bool {
	if a, b = strings.ToLower(a), strings.ToLower(b); a == b {
		return true
	}
	one, err := publicsuffix.EffectiveTLDPlusOne(a)
	if err != nil || net.ParseIP(a) != nil || net.ParseIP(b) != nil {
		return false
	}
	other, err := publicsuffix.EffectiveTLDPlusOne(b)
	return err == nil && one == other
}

// cut is the body of an answer that is counted up to the read position.
type cut struct {
	io.Reader
	io.Closer
}

// bounded is the body of an answer.
type bounded struct {
	io.ReadCloser
	left int64
}

// Read is io.Reader's.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLong
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n - 1, errTooLong
	}
	return n, err
}
