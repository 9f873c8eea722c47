package egress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

func addURLs(f *testing.F) {
	for _, url := range []string{
		"https://api.example.com:8774/v2.1/?q=1", "http://a", "http://[2001:db8::1]:80/", "http://127.0.0.1/%2f", "https://*.example.com/x",
		"HTTPS://A.example/%7e~", "http://a:080/", "http://a/;x", "http://a//b", "http://a?", "http://xn--bcher-kva.example/b%C3%BC",
		`http://a\@b/`, "http://a@b/", "http://a/..;/", "http://a/%252e%252e/", "http://０.example/", "http://[::ffff:1.2.3.4]/", "http://a./", "http://0x7f.1/",
	} {
		f.Add(url)
	}
}

// FuzzTarget: what net/http connects to and sends is what was compared with the
// grants, whatever the URL.
func FuzzTarget(f *testing.F) {
	addURLs(f)
	f.Fuzz(func(t *testing.T, raw string) {
		target, err := parseTarget(raw)
		if err != nil {
			return
		}
		address, sent := wire(t, target)
		if want := net.JoinHostPort(target.host, strconv.Itoa(int(target.port))); address != want {
			t.Errorf("%q: it connects to %s, and %s was compared", raw, address, want)
		}
		if sent.Host != authority(target) {
			t.Errorf("%q: the Host header is %q, and %q was compared", raw, sent.Host, authority(target))
		}
		if path, _, _ := strings.Cut(sent.RequestURI, "?"); path != target.path {
			t.Errorf("%q: the path is %q, and %q was compared", raw, path, target.path)
		}
		if _, err := netip.ParseAddr(target.host); err != nil && (strings.HasSuffix(target.host, ".") || strings.ContainsAny(target.host, "@:/\\%[]")) {
			t.Errorf("%q: host %q", raw, target.host)
		}
		again, err := parseTarget(target.url.String())
		if err != nil || again.String() != target.String() {
			t.Errorf("%q: becomes %s and then %s (%v)", raw, target, again, err)
		}
	})
}

// wire is where net/http would connect to for target, and the request as a
// server reads it.
func wire(t *testing.T, target target) (address string, sent *http.Request) {
	t.Helper()
	client, err := New([]Grant{{Scheme: target.scheme, Host: target.host, Port: target.port}}, Options{MaxRetries: -1})
	if err != nil {
		t.Fatalf("%s was parsed and cannot be granted: %v", target, err)
	}
	stop := errors.New("stop")
	client.connect = func(_ context.Context, _, to string, _ []netip.Prefix) (net.Conn, error) {
		address = to
		return nil, stop
	}
	call, e := client.authorize(&abi.HttpRequest{Method: "GET", Url: target.url.String()}, false)
	if e != nil {
		t.Fatalf("%s: %s", target, e.Message)
	}
	req, e := client.newRequest(t.Context(), call)
	if e != nil {
		t.Fatal(e)
	}
	resp, err := call.grant.transport.RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	if !errors.Is(err, stop) {
		t.Fatalf("%s: %v", target, err)
	}
	var out bytes.Buffer
	if err := req.Write(&out); err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	sent, err = http.ReadRequest(bufio.NewReader(&out))
	if err != nil {
		t.Fatalf("%s: a server cannot read it: %v", target, err)
	}
	return address, sent
}

// FuzzGrant: a grant allows its own prefix, is stable, and allows no host but
// its own.
func FuzzGrant(f *testing.F) {
	addURLs(f)
	f.Fuzz(func(t *testing.T, prefix string) {
		g, err := ParseGrant(prefix)
		if err != nil {
			return
		}
		if again, err := ParseGrant(g.String()); err != nil || again.String() != g.String() {
			t.Fatalf("%q: becomes %s and then %s (%v)", prefix, g, again, err)
		}
		if err := g.Validate(); err != nil {
			t.Fatalf("%q: %v", prefix, err)
		}
		host := strings.Replace(g.Host, "*", "x", 1)
		own, err := parseTarget(g.Scheme + "://" + hostPort(host, g.Port) + g.PathPrefix)
		if err != nil || !g.allows("GET", own) {
			t.Fatalf("%q: the grant %s does not allow %s (%v)", prefix, g, own, err)
		}
		for _, other := range []string{"x." + host, host + ".x", strings.TrimPrefix(g.Host, "*."), "y" + host} {
			t2 := own
			if t2.host = other; other != host && g.allows("GET", t2) && !strings.HasPrefix(g.Host, "*.") {
				t.Errorf("%q: the grant %s allows the host %s", prefix, g, other)
			}
		}
	})
}

// FuzzRetryAfter: no wait is negative or more than the bound.
func FuzzRetryAfter(f *testing.F) {
	for _, v := range []string{"", "0", "120", "-1", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 02 Jan 2006 15:04:05 GMT", "1e9"} {
		f.Add(v)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value string) {
		if d, ok := parseRetryAfter(value, now); d < 0 || d > maxRetryAfter || !ok && d != 0 {
			t.Errorf("%q: %s, %v", value, d, ok)
		}
	})
}
