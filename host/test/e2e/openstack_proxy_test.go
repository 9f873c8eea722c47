//go:build openstack

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// apiProxy stands between the manager and the APIs of OpenStack: it counts
// every request and can answer instead of the cloud. Port 5000 of the cloud is
// below /p5000/ here, also in Keystone's catalog.
type apiProxy struct {
	server  *http.Server
	address string
	forward *httputil.ReverseProxy

	mu     sync.Mutex
	counts map[string]int
	fault  func(w http.ResponseWriter, r *http.Request) bool
	log    []string
}

func startProxy(t *testing.T) *apiProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &apiProxy{address: listener.Addr().String(), counts: map[string]int{}}
	p.forward = &httputil.ReverseProxy{Rewrite: rewriteToCloud, ModifyResponse: p.rewriteLinks}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = p.server.Serve(listener) }() // ends with Close
	t.Cleanup(func() { _ = p.server.Close() })
	return p
}

// url is what an address of the cloud is here.
func (p *apiProxy) url(address string) string {
	return cloudAddress.ReplaceAllString(address, "http://"+p.address+"/p$1")
}

var cloudAddress = regexp.MustCompile(`http://127\.0\.0\.1:(\d+)`)

func rewriteToCloud(r *httputil.ProxyRequest) {
	port, path, _ := strings.Cut(strings.TrimPrefix(r.In.URL.Path, "/p"), "/")
	r.Out.URL = &url.URL{Scheme: "http", Host: "127.0.0.1:" + port, Path: "/" + path, RawQuery: r.In.URL.RawQuery}
	r.Out.Host = r.Out.URL.Host
	r.Out.Header.Del("Accept-Encoding") // bodies are rewritten
}

func (p *apiProxy) rewriteLinks(r *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		return err
	}
	body = []byte(p.url(string(body)))
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Length", fmt.Sprint(len(body)))
	return nil
}

// ServeHTTP counts a request and passes it on, unless there is a fault.
func (p *apiProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := kindOfCall(r)
	p.mu.Lock()
	p.counts[call]++
	p.log = append(p.log, time.Now().Format("15:04:05.000 ")+r.Method+" "+r.URL.RequestURI())
	fault := p.fault
	p.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	p.forward.ServeHTTP(w, r)
}

var identifier = regexp.MustCompile(`[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}`)

// services of the ports that the scripts of testdata/openstack use.
var services = map[string]string{"5000": "keystone", "8774": "nova", "9696": "neutron", "9876": "octavia", "8776": "cinder"}

// kindOfCall is "METHOD service path", with IDs left out.
func kindOfCall(r *http.Request) string {
	port, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/p"), "/")
	service := services[port]
	if service == "" {
		service = port
	}
	return r.Method + " " + service + " /" + identifier.ReplaceAllString(path, "ID")
}

// reset forgets what was counted.
func (p *apiProxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.counts)
	p.log = nil
}

// setFault makes f answer requests; it returns false for those that go on.
func (p *apiProxy) setFault(f func(w http.ResponseWriter, r *http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

// calls are the counts so far, writes among them those that change something
// at the cloud: a token is no such thing.
func (p *apiProxy) calls() (all map[string]int, reads, writes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all = maps.Clone(p.counts)
	for call, n := range all {
		switch {
		case strings.HasPrefix(call, "GET "):
			reads += n
		case !strings.HasPrefix(call, "POST keystone /v3/auth/tokens"):
			writes += n
		}
	}
	return all, reads, writes
}

// table shows counts, a line each.
func table(counts map[string]int) string {
	var b strings.Builder
	for _, call := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "%6d %s\n", counts[call], call)
	}
	return b.String()
}

// tail shows the last requests.
func (p *apiProxy) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.log[max(0, len(p.log)-40):], "\n")
}
