package egress_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

// tlsServer serves HTTP/2 and says who asks. It counts its connections.
type tlsServer struct {
	*httptest.Server
	connections atomic.Int32
}

func serveTLS(t *testing.T, config *tls.Config) *tlsServer {
	t.Helper()
	s := &tlsServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := r.Proto
		for _, c := range r.TLS.PeerCertificates {
			who += " " + c.Subject.CommonName
		}
		_, _ = io.WriteString(w, who)
	}))
	s.EnableHTTP2 = true
	s.TLS = config
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// granted is a grant of a path of s, whose certificate it knows.
func (s *tlsServer) granted(t *testing.T, path string) egress.Grant {
	t.Helper()
	g := grant(t, s.URL+path)
	g.RootCAs = x509.NewCertPool()
	g.RootCAs.AddCert(s.Certificate())
	return g
}

func newCertificate(t *testing.T, name string) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func body(r *abi.HttpResult) string { return string(responseOf(r).Body) }

// TestConnectionsAreNotSharedBetweenIdentities: each of the later grants would
// work over the connection of the first.
func TestConnectionsAreNotSharedBetweenIdentities(t *testing.T) {
	server := serveTLS(t, &tls.Config{ClientAuth: tls.RequestClientCert})
	trusted := server.granted(t, "/trusted/")
	distrusted := grant(t, server.URL+"/distrusted/")
	distrusted.RootCAs = x509.NewCertPool()
	certified := trusted
	certified.PathPrefix = "/certified/"
	certified.ClientCertificate = &egress.ClientCertificate{Get: func(context.Context) (*tls.Certificate, error) { return newCertificate(t, "me"), nil }}
	same := trusted
	same.PathPrefix = "/same/"
	inside := trusted
	inside.PathPrefix = "/inside/"
	inside.CIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	client := newClient(t, egress.Options{}, trusted, distrusted, certified, same, inside)
	for _, test := range []struct {
		path, want  string
		connections int32
	}{
		{"/trusted/", "HTTP/2.0", 1},
		{"/same/", "HTTP/2.0", 1},
		{"/certified/", "HTTP/2.0 me", 2},
		{"/inside/", "HTTP/2.0", 3},
		{"/trusted/", "HTTP/2.0", 3},
		{"/certified/", "HTTP/2.0 me", 3},
	} {
		if got := sendOne(t, client, get(server.URL+test.path)); body(got) != test.want || server.connections.Load() != test.connections {
			t.Errorf("%s: %s after %d connections, want %q after %d", test.path, show(got), server.connections.Load(), test.want, test.connections)
		}
	}
	wantCode(t, sendOne(t, client, get(server.URL+"/distrusted/")), abi.CodeUnavailable, "certificate")
	if n := server.connections.Load(); n != 4 {
		t.Errorf("a server that is not trusted was tried %d times", n-3)
	}
}

func TestNetworksOfOneGrantAreNotThoseOfAnother(t *testing.T) {
	_, port := behindDNS(t, []netip.Addr{netip.MustParseAddr("127.0.0.1")})
	url := "http://cloud.example:" + port
	inside, outside := grant(t, url+"/inside"), grant(t, url+"/outside")
	inside.CIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	client := newClient(t, egress.Options{Resolver: answers(t, netip.MustParseAddr("127.0.0.1"))}, inside, outside)
	if got := sendOne(t, client, get(url+"/inside")); got.Code != 0 {
		t.Error(show(got))
	}
	wantCode(t, sendOne(t, client, get(url+"/outside")), abi.CodeDenied, "127.0.0.1 is not a public address")
}

func TestClientCertificateIsRenewed(t *testing.T) {
	server := serveTLS(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert})
	var current atomic.Pointer[tls.Certificate]
	g := server.granted(t, "/")
	g.ClientCertificate = &egress.ClientCertificate{Get: func(context.Context) (*tls.Certificate, error) { return current.Load(), nil }}
	client := newClient(t, egress.Options{}, g)
	for _, name := range []string{"first", "second"} {
		current.Store(newCertificate(t, name))
		client.Close() // its connections, for they were made with the other one
		if got := sendOne(t, client, get(server.URL)); body(got) != "HTTP/2.0 "+name {
			t.Errorf("with the %s: %s", name, show(got))
		}
	}
}

func TestClientCertificateThatCannotBeHad(t *testing.T) {
	server := serveTLS(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert})
	for name, source := range map[string]func(context.Context) (*tls.Certificate, error){
		"no such Secret": func(context.Context) (*tls.Certificate, error) { return nil, errors.New("no such Secret") },
		"there is none":  func(context.Context) (*tls.Certificate, error) { return nil, nil },
	} {
		g := server.granted(t, "/")
		g.ClientCertificate = &egress.ClientCertificate{Get: source}
		wantCode(t, sendOne(t, newClient(t, egress.Options{}, g), get(server.URL)), abi.CodeUnavailable, "client certificate: "+name)
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	server := serveTLS(t, &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10})
	wantCode(t, sendOne(t, newClient(t, egress.Options{MaxRetries: -1}, server.granted(t, "/")), get(server.URL)), abi.CodeUnavailable, "protocol version")
}

func TestHTTP1ConnectionsAreReused(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	a, b := grant(t, server.URL+"/a"), grant(t, server.URL+"/b")
	client := newClient(t, egress.Options{}, a, b)
	for _, path := range []string{"/a", "/b", "/a", "/b"} {
		sendOne(t, client, get(server.URL+path))
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections for 4 requests", n)
	}
}

func TestWildcardGrant(t *testing.T) {
	_, port := behindDNS(t, []netip.Addr{netip.MustParseAddr("127.0.0.1")})
	g := grant(t, "http://*.cloud.example:"+port+"/v1/")
	g.CIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	client := newClient(t, egress.Options{Resolver: answers(t, netip.MustParseAddr("127.0.0.1"))}, g)
	for host, want := range map[string]abi.Code{
		"api.cloud.example": abi.CodeOK, "API.cloud.example": abi.CodeOK, "x-1.cloud.example": abi.CodeOK,
		"cloud.example": abi.CodeDenied, "a.b.cloud.example": abi.CodeDenied, "apicloud.example": abi.CodeDenied,
		"api.cloud.example.evil.example": abi.CodeDenied, "api.notcloud.example": abi.CodeDenied,
		".cloud.example": abi.CodeInvalid, "*.cloud.example": abi.CodeInvalid, "api.cloud.example.": abi.CodeInvalid,
	} {
		got := sendOne(t, client, get("http://"+host+":"+port+"/v1/x"))
		if abi.Code(got.Code) != want || want == abi.CodeOK && body(got) != strings.ToLower(host)+":"+port {
			t.Errorf("%s: %s, want %v", host, show(got), want)
		}
	}
}
