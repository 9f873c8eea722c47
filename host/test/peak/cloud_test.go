package peak_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

// cloudCases are what a cloud, its token server, its DNS and who stands in
// their place can answer.
func cloudCases() []peakCase {
	const ok = "HTTP/1.1 200 OK\r\n"
	answers := func(name string, most int, write func(io.Writer) error) peakCase {
		return peakCase{Name: name, Most: most, Read: func(t *testing.T, hostile bool) {
			if !hostile {
				write = repeat(ok+"Content-Length: 2\r\n\r\n{}", "")
			}
			send(t, rawServer(t, write), egress.Options{MaxRetries: -1}, hostile)
		}}
	}
	return []peakCase{
		answers("a body without an end", 48, repeat(ok+"Connection: close\r\n\r\n", strings.Repeat("x", 64<<10))),
		answers("a body of 1 GiB, gzip", 48, func(w io.Writer) error {
			if _, err := io.WriteString(w, ok+"Content-Encoding: gzip\r\nConnection: close\r\n\r\n"); err != nil {
				return err
			}
			z := gzip.NewWriter(w)
			_, err := io.Copy(z, io.LimitReader(zero{}, 1<<30))
			return errors.Join(err, z.Close())
		}),
		answers("headers without an end", 16, repeat(ok, "X-A: b\r\n")),
		answers("trailers without an end", 16, repeat(ok+"Transfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n0\r\n", "X-A: b\r\n")),
		answers("interim answers without an end", 16, repeat("", "HTTP/1.1 103 Early Hints\r\nX-A: b\r\n\r\n")),
		{Name: "a token of an OAuth2 server without an end", Most: 16, Read: readToken},
		{Name: "a login of 1 MiB of objects", Most: 80, Read: readLogin(mebibyte)},
		{Name: "a login of 8 MiB of objects", Most: 48, Read: readLogin(8 * mebibyte)},
		{Name: "a DNS answer of 3,000 addresses", Most: 16, Read: readDNS},
		{Name: "a chain of 200 certificates", Most: 24, Read: readCertificates},
	}
}

// send wants an error exactly of what is hostile.
func send(t *testing.T, url string, options egress.Options, hostile bool, cidrs ...netip.Prefix) {
	t.Helper()
	g, err := egress.ParseGrant(url)
	if err != nil {
		t.Fatal(err)
	}
	g.CIDRs = cidrs
	client, err := egress.New([]egress.Grant{g}, options)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	results, err := client.Send(t.Context(), []*abi.HttpRequest{{Method: "GET", Url: url}})
	if err != nil {
		t.Fatal(err)
	}
	if refused := results[0].Response == nil; refused != hostile {
		t.Fatalf("hostile: %v, answer %v", hostile, results[0])
	}
}

// repeat writes head, and then part until that fails; an empty one once.
func repeat(head, part string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, head)
		for err == nil && part != "" {
			_, err = io.WriteString(w, part)
		}
		return err
	}
}

// rawServer answers one request of each connection.
func rawServer(t *testing.T, write func(io.Writer) error) (url string) {
	t.Helper()
	listener := listen(t)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					_ = write(conn) // until the client has enough
				}
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// secretOf is a Secret with a client's account.
type secretOf map[string][]byte

func (s secretOf) Get(context.Context, string, string) (map[string][]byte, string, error) {
	return s, "1", nil
}

func readToken(t *testing.T, hostile bool) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if hostile {
			chunk := bytes.Repeat([]byte(`{"access_token":"`), 4000)
			for err := error(nil); err == nil; {
				_, err = w.Write(chunk)
			}
			return
		}
		_, _ = io.WriteString(w, `{"access_token":"0123456789","token_type":"bearer"}`)
	}))
	defer server.Close()
	set, err := credential.NewSet(secretOf{"client_id": []byte("manager"), "client_secret": []byte("0123456789")},
		[]credential.Spec{{Name: "cloud", OAuth2: &credential.OAuth2ClientCredentials{TokenURL: server.URL, Transport: http.DefaultTransport}}}, credential.Options{})
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://cloud.example/", nil)
	if _, err = set.Apply(t.Context(), "cloud", "", request, nil); (err != nil) != hostile {
		t.Fatalf("hostile: %v, error %v", hostile, err)
	}
}

// readLogin reads an answer to a login, whose session is in a field, that is
// nothing but empty objects.
func readLogin(size int) func(t *testing.T, hostile bool) {
	return func(t *testing.T, hostile bool) {
		body := []byte(`{"value":"0123456789"}`)
		if hostile {
			body = append(append([]byte("["), bytes.Repeat([]byte("{},"), size/3-2)...), "{}]"...)
		}
		set, err := credential.NewSet(secretOf{"username": []byte("manager"), "password": []byte("0123456789")},
			[]credential.Spec{{Name: "cloud", Basic: &credential.Basic{}, Session: &credential.Session{Header: "X-Session", Field: "value"}}}, credential.Options{})
		if err != nil {
			t.Fatal(err)
		}
		answered, err := set.Apply(t.Context(), "cloud", "", httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://cloud.example/", nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := answered(http.StatusOK, http.Header{}, body); bytes.Contains(got, []byte("0123456789")) || len(got) > mebibyte {
			t.Fatalf("%d bytes are handed on", len(got))
		}
	}
}

// readDNS asks a DNS server that has one address for a name, or as many as a
// message has room for, none of which may be reached.
func readDNS(t *testing.T, hostile bool) {
	addresses := []string{"127.0.0.1"}
	if hostile {
		addresses = nil
		for i := range 3000 {
			addresses = append(addresses, fmt.Sprintf("169.254.%d.%d", i/256, i%256))
		}
	}
	target := rawServer(t, repeat("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", ""))
	_, port, err := net.SplitHostPort(strings.TrimPrefix(target, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	server := listen(t)
	go serveDNS(server, addresses)
	var dialer net.Dialer
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", server.Addr().String())
	}}
	send(t, "http://cloud.example:"+port, egress.Options{MaxRetries: -1, Resolver: resolver}, hostile, netip.MustParsePrefix("127.0.0.0/8"))
}

// serveDNS answers questions over TCP, where a message has up to 64 KiB.
func serveDNS(listener net.Listener, addresses []string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			for answerDNS(conn, addresses) == nil {
			}
		}()
	}
}

func answerDNS(conn net.Conn, addresses []string) error {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return err
	}
	question := make([]byte, int(length[0])<<8|int(length[1]))
	if _, err := io.ReadFull(conn, question); err != nil {
		return err
	}
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return err
	}
	m.Response, m.Additionals = true, nil
	for _, text := range addresses {
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: dnsmessage.ClassINET, TTL: 1},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(text).As4()},
			})
		}
	}
	out, err := m.Pack()
	if err != nil {
		return err
	}
	_, err = conn.Write(append([]byte{byte(len(out) >> 8), byte(len(out))}, out...))
	return err
}

// readCertificates speaks to a server with a chain of certificates that verify
// nothing. They are as many as a handshake has room for.
func readCertificates(t *testing.T, hostile bool) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	server.StartTLS()
	server.Close()
	one := server.TLS.Certificates[0]
	if hostile {
		for range 199 {
			one.Certificate = append(one.Certificate, one.Certificate[0])
		}
	}
	listener := tls.NewListener(listen(t), &tls.Config{Certificates: []tls.Certificate{one}, MinVersion: tls.VersionTLS12})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = conn.(*tls.Conn).Handshake() // which the client ends
				_ = conn.Close()
			}()
		}
	}()
	send(t, "https://"+listener.Addr().String(), egress.Options{MaxRetries: -1}, true)
}
