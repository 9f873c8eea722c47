package egress_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

// reached asks for the host of one grant.
func reached(t *testing.T, options egress.Options, g egress.Grant) egress.Reach {
	t.Helper()
	all, more := newClient(t, options, g).Reach(t.Context(), 1)
	if len(all) != 1 || more {
		t.Fatalf("%d hosts, and more is %v: %+v", len(all), more, all)
	}
	return all[0]
}

// unused is a port of loopback on which nobody listens.
func unused(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func TestReachSaysHowFarItCame(t *testing.T) {
	secure := serveTLS(t, nil)
	expired := newCertificate(t, "127.0.0.1")
	leaf := expire(t, expired)
	old := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{*expired}})
	oldGrant := grant(t, old.URL)
	oldGrant.RootCAs = x509.NewCertPool()
	oldGrant.RootCAs.AddCert(leaf)
	distrusted := grant(t, secure.URL)
	distrusted.RootCAs = x509.NewCertPool()
	plain := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	loopback := netip.MustParseAddr("127.0.0.1")
	for name, test := range map[string]struct {
		grant          egress.Grant
		resolver       *net.Resolver
		result, detail string
	}{
		"https":            {secure.granted(t, "/"), nil, egress.Reached, ""},
		"http":             {grant(t, plain.URL), nil, egress.Reached, ""},
		"nobody listens":   {grant(t, "http://"+unused(t)), nil, egress.NotConnected, "connection refused"},
		"not TLS":          {grant(t, strings.Replace(plain.URL, "http", "https", 1)), nil, egress.TLSFailed, "does not look like a TLS handshake"},
		"another CA":       {distrusted, nil, egress.TLSFailed, "unknown authority"},
		"expired":          {oldGrant, nil, egress.TLSFailed, "expired"},
		"no such name":     {grant(t, "https://cloud.example"), answers(t), egress.NotResolved, "lookup cloud.example"},
		"an address of us": {grant(t, "https://cloud.example"), answers(t, loopback), egress.AddressRefused, "127.0.0.1 is not a public address"},
		"a wildcard":       {grant(t, "https://*.cloud.example"), nil, egress.NotAsked, "many hosts"},
	} {
		t.Run(name, func(t *testing.T) {
			got := reached(t, egress.Options{Resolver: test.resolver}, test.grant)
			if got.Result != test.result || !strings.Contains(got.Detail, test.detail) || (test.detail == "") != (got.Detail == "") {
				t.Errorf("%+v, want %s %q", got, test.result, test.detail)
			}
			if got.Result == egress.Reached && (got.Address == "" || (got.TLS != "") != (test.grant.Scheme == "https") || got.CertificateEnds.IsZero() != (got.TLS == "")) {
				t.Errorf("%+v lacks something", got)
			}
		})
	}
}

// expire makes the certificate one of 127.0.0.1 that has ended.
func expire(t *testing.T, c *tls.Certificate) *x509.Certificate {
	t.Helper()
	leaf, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	leaf.NotAfter, leaf.IPAddresses = time.Now().Add(-time.Hour), []net.IP{net.IPv4(127, 0, 0, 1)}
	leaf.IsCA, leaf.BasicConstraintsValid = true, true
	der, err := x509.CreateCertificate(nil, leaf, leaf, leaf.PublicKey, c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	c.Certificate = [][]byte{der}
	if leaf, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return leaf
}

// The provider's own certificate is shown, as its requests show it; nothing else
// of it is used, and nothing is counted.
func TestReachSendsNoRequest(t *testing.T) {
	server := serveTLS(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12})
	server.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	g := server.granted(t, "/")
	g.Credentials = []string{"token"}
	g.ClientCertificate = &egress.ClientCertificate{Get: func(context.Context) (*tls.Certificate, error) { return newCertificate(t, "me"), nil }}
	other := g
	other.PathPrefix = "/other"
	watching := &observer{}
	client := newClient(t, egress.Options{Observer: watching, Credentials: credentials{apply: func(string, string, *http.Request, []byte) error {
		t.Error("a credential was used")
		return nil
	}}}, g, other)
	all, _ := client.Reach(t.Context(), 10)
	if len(all) != 1 || all[0].Result != egress.Reached || all[0].TLS != "TLS 1.2" {
		t.Errorf("%+v", all)
	}
	if n := server.connections.Load(); n != 1 {
		t.Errorf("%d connections, want one for both grants", n)
	}
	if seen := watching.all(); len(seen) > 0 || len(client.Traffic().Hosts()) > 0 {
		t.Errorf("it was counted: %v %v", seen, client.Traffic().Hosts())
	}
}

// A host that says nothing, and one that cannot be connected to, are given up.
func TestReachEnds(t *testing.T) {
	for name, connect := range map[string]func(ctx context.Context, address string) (net.Conn, error){
		"silent":      func(context.Context, string) (net.Conn, error) { ours, _ := net.Pipe(); return ours, nil },
		"unreachable": func(ctx context.Context, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := newClient(t, egress.Options{}, grant(t, "https://a.example"), grant(t, "https://b.example"), grant(t, "https://c.example"))
				egress.ConnectBy(client, connect)
				begun := time.Now()
				all, more := client.Reach(t.Context(), 2)
				if took := time.Since(begun); took != 5*time.Second || len(all) != 2 || !more {
					t.Errorf("%d hosts after %v, and more is %v", len(all), took, more)
				}
				for _, r := range all {
					if r.Result == egress.Reached || r.Detail != "no answer within 5s" {
						t.Errorf("%+v", r)
					}
				}
			})
		})
	}
}

// What a host says of itself is scrubbed.
func TestReachHasNoSecret(t *testing.T) {
	scrub := func(text []byte) []byte { return []byte(strings.ReplaceAll(string(text), "refused", "***")) }
	got := reached(t, egress.Options{Credentials: credentials{scrub: scrub}}, grant(t, "http://"+unused(t)))
	if got.Result != egress.NotConnected || !strings.HasSuffix(got.Detail, "connection ***") {
		t.Errorf("%+v", got)
	}
}
