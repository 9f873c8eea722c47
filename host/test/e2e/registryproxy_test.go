package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"

	"github.com/wasm-ccm/wasm-ccm/host/test/devregistry"
)

// registryProxy stands before a registry, on loopback without TLS. It passes on
// what the registry answers, or something else than a digest names.
type registryProxy struct {
	*httptest.Server
	registry *devregistry.Registry
	client   *http.Client
	// lie is the kind of what it lies about, manifests or blobs; "": nothing.
	lie atomic.Value
}

func newRegistryProxy(r *devregistry.Registry) *registryProxy {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(r.CABundle))
	p := &registryProxy{registry: r, client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}}
	p.lie.Store("")
	p.Server = httptest.NewServer(p)
	return p
}

func (p *registryProxy) stop() {
	p.Close()
	p.client.CloseIdleConnections()
}

// ServeHTTP implements http.Handler.
func (p *registryProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	dir, digest := path.Split(r.URL.Path)
	kind := path.Base(dir)
	lies := kind == p.lie.Load() && strings.HasPrefix(digest, "sha256:")
	target := r.URL.Path
	if lies && kind == "manifests" {
		target = dir + "v1" // that of another image
	}
	a, err := p.fetch(r, target)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	if lies && kind == "blobs" && len(a.body) > 0 {
		a.body[len(a.body)-1]++
	}
	for _, name := range []string{"Content-Type", "Content-Length", "Docker-Content-Digest"} {
		w.Header().Set(name, a.header.Get(name))
	}
	if lies {
		w.Header().Set("Docker-Content-Digest", digest)
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}

// answer is one of the registry, all of it.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// fetch asks the registry the same about a path.
func (p *registryProxy) fetch(r *http.Request, target string) (answer, error) {
	request, err := http.NewRequestWithContext(r.Context(), r.Method, "https://"+p.registry.Address+target, nil)
	if err != nil {
		return answer{}, err
	}
	request.Header = r.Header.Clone()
	request.Header.Set("Accept-Encoding", "identity")
	response, err := p.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }() // all of it was read, or there is an error
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, body}, err
}

// digest asks the registry for that of an image, PATH:TAG.
func (p *registryProxy) digest(image string) (string, error) {
	repository, tag, _ := strings.Cut(image, ":")
	request, err := http.NewRequestWithContext(context.Background(), http.MethodHead, p.URL, nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Accept", "application/vnd.oci.image.manifest.v1+json")
	a, err := p.fetch(request, "/v2/"+repository+"/manifests/"+tag)
	if err != nil {
		return "", err
	}
	return a.header.Get("Docker-Content-Digest"), nil
}
