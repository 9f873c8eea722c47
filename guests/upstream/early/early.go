// Package early sets what a provider's package initialisers may read: the
// environment and http.DefaultTransport. It imports only the standard library,
// so that it is initialised before them; later clones of the default transport
// and readers of the proxy variables find the way to the host.
package early

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
)

// Proxy is the adapter's address on the instance's own loopback, for HTTP
// clients that use a proxy. No packet leaves the module.
const Proxy = "127.0.0.1:3128"

// Dial connects to the adapter in place of the address, with the scheme's
// protocol. The adapter sets it before the provider runs.
var Dial = func(ctx context.Context, scheme, address string) (net.Conn, error) {
	return nil, errors.New("upstream: nothing serves yet: " + scheme + "://" + address)
}

//nolint:gochecknoinits // must precede other initialisers
func init() {
	for name, value := range environment {
		_ = os.Setenv(name, value)
	}
	if transport, ok := http.DefaultTransport.(*http.Transport); ok {
		Transport(transport)
	}
}

// environment has no NO_PROXY: everything goes through the host.
var environment = map[string]string{
	"HTTP_PROXY": "http://" + Proxy, "HTTPS_PROXY": "http://" + Proxy, "NO_PROXY": "", "HOME": "/",
	// A watch of client-go begins with a list that the adapter answers.
	"KUBE_FEATURE_WatchListClient": "false",
}

// Transport directs the connections of a transport and its clones to the
// adapter. TLS ends there.
func Transport(t *http.Transport) {
	t.Proxy = nil
	t.ForceAttemptHTTP2 = false
	t.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{} // no HTTP/2: there is no network to save
	t.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) { return Dial(ctx, "http", address) }
	t.DialTLSContext = func(ctx context.Context, _, address string) (net.Conn, error) { return Dial(ctx, "https", address) }
}
