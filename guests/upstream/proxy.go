package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/wasm-ccm/wasm-ccm/guests/upstream/early"
)

// proxy is an HTTP server in the guest, for clients with their own transport.
// They reach it as a proxy, by plain requests and by CONNECT, or by the pipes
// of early.Dial, which stand for the cloud's own address.
type proxy struct {
	next  http.RoundTripper
	pipes pipes
	ca    authority
	trust func(*x509.CertPool) // makes system roots of the CA; nil: clients know it
	once  sync.Once
	at    net.Addr
	err   error
}

func newProxy(next http.RoundTripper) *proxy {
	return &proxy{next: next, pipes: pipes{c: make(chan net.Conn, 16)}}
}

// install directs the default transport, its clones, and clients of the
// environment's proxy to the host. Nothing is sent before an op runs.
func (b *bridge) install() {
	early.Dial = b.server.dial
	b.server.trust = x509.SetFallbackRoots // once in a process
	if transport, ok := http.DefaultTransport.(*http.Transport); ok {
		transport.RegisterProtocol("https", b)
		transport.RegisterProtocol("http", b)
	}
}

// serve starts the listener, once. Clients that use the system's roots, of
// which a guest has none, trust the CA from then on.
//
// loopback are URLs that it stands in for: net/http uses no proxy for them.
func (p *proxy) serve(address string, loopback []string) error {
	p.once.Do(func() { p.err = p.begin(address, loopback) })
	return p.err
}

func (p *proxy) begin(address string, loopback []string) error {
	if err := p.ca.make(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address) //nolint:noctx // the instance's own loopback never blocks
	if err != nil {
		return err
	}
	if p.trust != nil {
		p.trust(p.ca.pool)
	}
	p.at = listener.Addr()
	for _, address := range loopback {
		if err := p.standIn(address); err != nil {
			return err
		}
	}
	go p.serveOn(listener)
	go p.serveOn(p.pipes)
	return nil
}

// standIn listens at the address of a URL on loopback.
func (p *proxy) standIn(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", u.Host) //nolint:noctx // as in begin
	if err != nil {
		return err
	}
	go p.serveOn(&standIn{listener, u.Scheme, p.ca.config(u.Hostname())})
	return nil
}

// standIn is a listener in a server's place.
type standIn struct {
	net.Listener
	scheme string
	tls    *tls.Config
}

func (s *standIn) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err == nil && s.scheme == "https" {
		c = tls.Server(c, s.tls)
	}
	return conn{c, s.scheme}, err
}

func (p *proxy) serveOn(listener net.Listener) {
	server := &http.Server{
		Handler:           p,
		ReadHeaderTimeout: time.Hour, // a client that waits for the next op is not slow
		ErrorLog:          log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if pipe, ok := c.(conn); ok {
				ctx = context.WithValue(ctx, schemeKey{}, pipe.scheme)
			}
			return ctx
		},
	}
	_ = server.Serve(listener) // ends with the instance
}

type schemeKey struct{}

// conn is a connection to the supposed cloud.
type conn struct {
	net.Conn
	scheme string
}

// dial connects to the server, for early.Dial. Without TLS.
func (p *proxy) dial(ctx context.Context, scheme, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	return client, p.pipes.give(ctx, conn{server, scheme})
}

// ServeHTTP sends a request by the host.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		p.connect(w, r)
		return
	}
	if r.URL.Host == "" { // not as to a proxy
		r.URL.Host = r.Host
		r.URL.Scheme, _ = r.Context().Value(schemeKey{}).(string)
	}
	r.RequestURI = ""
	response, err := p.next.RoundTrip(r)
	if err != nil {
		log.Printf("upstream: %v", err) // the client will see only a broken connection
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = response.Body.Close() }() // of memory
	for name, values := range response.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, response.Body) // a client may go away
}

// connect speaks TLS with a client that wants a tunnel.
func (p *proxy) connect(w http.ResponseWriter, r *http.Request) {
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	c, _, err := hijacker.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n") // fails if the handshake does
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	secure := conn{tls.Server(c, p.ca.config(host)), "https"}
	if p.pipes.give(r.Context(), secure) != nil {
		_ = c.Close()
	}
}

// pipes is a listener for connections made within the guest.
type pipes struct{ c chan net.Conn }

func (p pipes) give(ctx context.Context, c net.Conn) error {
	select {
	case p.c <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p pipes) Accept() (net.Conn, error) { return <-p.c, nil }
func (p pipes) Close() error              { return nil }
func (p pipes) Addr() net.Addr            { return &net.TCPAddr{} }
