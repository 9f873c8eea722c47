package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Fixed bounds of one request.
const (
	dialTimeout         = 10 * time.Second
	tlsTimeout          = 10 * time.Second
	idleTimeout         = 90 * time.Second
	maxIdleConns        = 64
	maxHeaderBytes      = 64 << 10 // of a request, and of a response
	maxRequestHeaders   = 128
	maxResponseHeaders  = 256
	maxURLBytes         = 8 << 10
	defaultUserAgent    = "wasm-ccm"
	maxErrorMessageSize = 1 << 10
)

// Options bound a Client. The zero value of a field is its default.
type Options struct {
	// MaxBatchBytes bounds the bodies and headers of all responses of one
	// batch. Default 8 MiB.
	MaxBatchBytes int64
	// MaxTimeout bounds one request, whatever its op's deadline. Default 5 min.
	MaxTimeout time.Duration
	// MaxConcurrent bounds the requests that are under way. Default 16.
	MaxConcurrent int
	// RequestsPerSecond and Burst bound the rate. Defaults 100 and 200.
	RequestsPerSecond float64
	Burst             int
	// RootCAs verify servers; nil takes the system's.
	RootCAs *x509.CertPool
	// Resolver resolves hosts; nil takes the system's.
	Resolver *net.Resolver
}

func (o Options) withDefaults() Options {
	setDefault(&o.MaxBatchBytes, 8<<20)
	setDefault(&o.MaxTimeout, 5*time.Minute)
	setDefault(&o.MaxConcurrent, 16)
	setDefault(&o.RequestsPerSecond, 100)
	setDefault(&o.Burst, 200)
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Client sends the requests of one provider. It keeps connections for reuse.
// It is safe for concurrent use.
type Client struct {
	grants    []Grant
	options   Options
	vetter    *vetter
	limiter   *rate.Limiter
	slots     chan struct{}
	transport *http.Transport
}

// New returns a client that sends what the grants allow. It connects to
// nothing before the first request.
func New(grants []Grant, options Options) (*Client, error) {
	for _, g := range grants {
		if err := g.validate(); err != nil {
			return nil, err
		}
	}
	options = options.withDefaults()
	c := &Client{
		grants:  grants,
		options: options,
		vetter:  newVetter(),
		limiter: rate.NewLimiter(rate.Limit(options.RequestsPerSecond), options.Burst),
		slots:   make(chan struct{}, options.MaxConcurrent),
	}
	c.transport = &http.Transport{
		DialContext:            c.dial,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: options.RootCAs},
		TLSHandshakeTimeout:    tlsTimeout,
		DisableCompression:     true,
		MaxIdleConns:           maxIdleConns,
		MaxIdleConnsPerHost:    options.MaxConcurrent,
		MaxConnsPerHost:        options.MaxConcurrent,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		ForceAttemptHTTP2:      true,
	}
	return c, nil
}

// Close closes the idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Send sends the requests in parallel and returns one result for each, in
// their order. A request that is refused or fails does not harm the others.
// Redirects are handed back, not followed. The error is an *abi.Error.
func (c *Client) Send(ctx context.Context, requests []*abi.HttpRequest) ([]*abi.HttpResult, error) {
	if len(requests) == 0 || len(requests) > abi.MaxHTTPBatch {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("%d requests in one batch, must be from 1 to %d", len(requests), abi.MaxHTTPBatch)}
	}
	var bytesLeft atomic.Int64
	bytesLeft.Store(c.options.MaxBatchBytes)
	results := make([]*abi.HttpResult, len(requests))
	var wg sync.WaitGroup
	for i, request := range requests {
		wg.Go(func() {
			response, err := c.sendOne(ctx, request, &bytesLeft)
			results[i] = result(response, err)
		})
	}
	wg.Wait()
	return results, nil
}

func result(response *abi.HttpResponse, err *abi.Error) *abi.HttpResult {
	if err == nil {
		return &abi.HttpResult{Response: response}
	}
	return &abi.HttpResult{Code: uint32(err.Code), Error: &abi.ErrorDetail{
		Message: clipMessage(err.Message), RetryAfterMs: err.RetryAfter.Milliseconds()}}
}

func (c *Client) sendOne(ctx context.Context, request *abi.HttpRequest, bytesLeft *atomic.Int64) (*abi.HttpResponse, *abi.Error) {
	t, e := c.authorize(request)
	if e != nil {
		return nil, e
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout(request.GetTimeoutMs()))
	defer cancel()
	if e := c.enter(ctx, t); e != nil {
		return nil, e
	}
	defer c.leave()
	req, err := newRequest(ctx, request, t)
	if err != nil {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("%s: the request is not valid", t)}
	}
	// RoundTrip, not a http.Client: no redirects, no cookies, no retries of
	// what may have happened, and errors that do not repeat the URL.
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, failure(ctx, request.GetMethod(), t, err)
	}
	defer resp.Body.Close()
	out, err := readResponse(resp, bytesLeft)
	if err != nil {
		return nil, failure(ctx, request.GetMethod(), t, err)
	}
	return out, nil
}

// timeout is that of one request; 0 asks for the longest.
func (c *Client) timeout(ms int64) time.Duration {
	if ms == 0 || ms > c.options.MaxTimeout.Milliseconds() {
		return c.options.MaxTimeout
	}
	return time.Duration(ms) * time.Millisecond
}

// enter waits until the provider's rate and concurrency allow one more.
func (c *Client) enter(ctx context.Context, t target) *abi.Error {
	if err := c.limiter.Wait(ctx); err != nil {
		return &abi.Error{Code: abi.CodeThrottled, RetryAfter: time.Second,
			Message: fmt.Sprintf("%s: more than %v requests per second", t, c.options.RequestsPerSecond)}
	}
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &abi.Error{Code: abi.CodeDeadline, Message: fmt.Sprintf("%s: the time was over before the request could be sent", t)}
	}
}

func (c *Client) leave() { <-c.slots }

// dial connects to a host. The address is checked after it was resolved and
// before it is connected to, by the same call: there is no time in between in
// which DNS could change its mind.
func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	allowed := c.exceptions(host, port)
	dialer := net.Dialer{
		Timeout:  dialTimeout,
		Resolver: c.options.Resolver,
		ControlContext: func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
			addr, err := netip.ParseAddrPort(resolved)
			if err != nil {
				return &refusedError{err}
			}
			if err := c.vetter.check(addr.Addr(), allowed); err != nil {
				return &refusedError{err}
			}
			return nil
		},
	}
	return dialer.DialContext(ctx, network, address)
}

// exceptions are the addresses that host may have although they are not
// public. The transport shares connections between all requests to one host
// and port, so they are those of all grants to it.
func (c *Client) exceptions(host, port string) []netip.Prefix {
	var out []netip.Prefix
	for _, g := range c.grants {
		if g.Host == host && strconv.Itoa(int(g.Port)) == port {
			out = append(out, g.CIDRs...)
		}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		out = append(out, netip.PrefixFrom(addr, addr.BitLen()))
	}
	return out
}

// refusedError is an address that may not be connected to.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }
