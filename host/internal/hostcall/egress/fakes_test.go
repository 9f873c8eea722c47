package egress_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

// credentials is egress.Credentials by functions; what is nil does nothing.
type credentials struct {
	apply    func(name, scope string, req *http.Request, body []byte) error
	answered func(status int, header http.Header, body []byte) []byte
	rejected func(name, scope string) bool
	scrub    func([]byte) []byte
}

func (f credentials) Apply(_ context.Context, name, scope string, req *http.Request, body []byte) (func(int, http.Header, []byte) []byte, error) {
	if f.apply == nil {
		return f.answered, nil
	}
	return f.answered, f.apply(name, scope, req, body)
}

func (f credentials) Rejected(_ context.Context, name, scope string) bool {
	return f.rejected != nil && f.rejected(name, scope)
}

func (f credentials) Scrub(data []byte) []byte {
	if f.scrub == nil {
		return data
	}
	return f.scrub(data)
}

func (f credentials) ScrubContext(ctx context.Context, data []byte) ([]byte, error) {
	return f.Scrub(data), ctx.Err()
}

// observer keeps what it is told, except how long things took.
type observer struct {
	mu     sync.Mutex
	events []string
	flight int
	most   int
	// exchanges are what Requested was told.
	exchanges []egress.Exchange
}

func (o *observer) add(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, fmt.Sprintf(format, args...))
}

func (o *observer) count(event string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, e := range o.events {
		if e == event {
			n++
		}
	}
	return n
}

func (o *observer) all() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.events)
}

func (o *observer) Requested(_ context.Context, x egress.Exchange) {
	if x.Took < 0 {
		o.add("negative time")
	}
	o.add("%s %s %s", x.Host, x.Method, x.Result)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.exchanges = append(o.exchanges, x)
}

func (o *observer) InFlight(_ string, delta int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flight += delta
	o.most = max(o.most, o.flight)
}

func (o *observer) Retried(host, reason string)   { o.add("%s retried %s", host, reason) }
func (o *observer) Throttled(host, reason string) { o.add("%s throttled %s", host, reason) }
func (o *observer) BreakerChanged(host, from, to string) {
	o.add("%s breaker %s -> %s", host, from, to)
}
func (o *observer) Refused(code string) { o.add("refused %s", code) }

// cloud is a server without a network, for tests in a synctest bubble, where
// time is not real.
type cloud struct {
	conns    chan net.Conn
	done     chan struct{}
	requests atomic.Int32
	dials    atomic.Int32
	// refuse makes connecting fail while it returns an error.
	refuse func(address string) error
}

// newCloud serves handler at every http URL that client is granted.
func newCloud(t *testing.T, handler http.HandlerFunc) *cloud {
	t.Helper()
	c := &cloud{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.requests.Add(1)
		handler(w, r)
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(c)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return c
}

func (c *cloud) client(t *testing.T, options egress.Options, prefixes ...string) *egress.Client {
	t.Helper()
	var grants []egress.Grant
	for _, prefix := range prefixes {
		g := grant(t, prefix)
		g.Credentials = []string{"token"}
		grants = append(grants, g)
	}
	client := newClient(t, options, grants...)
	egress.ConnectBy(client, c.connect)
	return client
}

func (c *cloud) connect(ctx context.Context, address string) (net.Conn, error) {
	c.dials.Add(1)
	if c.refuse != nil {
		if err := c.refuse(address); err != nil {
			return nil, err
		}
	}
	here, there := net.Pipe()
	select {
	case c.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *cloud) Accept() (net.Conn, error) {
	select {
	case conn := <-c.conns:
		return conn, nil
	case <-c.done:
		return nil, net.ErrClosed
	}
}

func (c *cloud) Close() error {
	close(c.done)
	return nil
}

func (c *cloud) Addr() net.Addr { return &net.UnixAddr{Name: "cloud"} }

func request(method, url string) *abi.HttpRequest { return &abi.HttpRequest{Method: method, Url: url} }

func header(r *abi.HttpResult, name string) string {
	for _, h := range responseOf(r).Headers {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

// show is a result in words.
func show(r *abi.HttpResult) string {
	out := fmt.Sprintf("%v %q", abi.Code(r.Code), errorOf(r).Message)
	if r.Response == nil {
		return out
	}
	out = fmt.Sprintf("status %d", r.Response.Status)
	for _, h := range r.Response.Headers {
		out += fmt.Sprintf(", %s: %s", h.Name, h.Value)
	}
	return out + fmt.Sprintf(", body %q", r.Response.Body)
}

// responseOf is a result's response, an empty one for none.
func responseOf(r *abi.HttpResult) *abi.HttpResponse {
	if r.Response == nil {
		return &abi.HttpResponse{}
	}
	return r.Response
}

// errorOf is a result's error, an empty one for none.
func errorOf(r *abi.HttpResult) *abi.ErrorDetail {
	if r.Error == nil {
		return &abi.ErrorDetail{}
	}
	return r.Error
}
