package egress

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Client sends the requests of one provider. It keeps connections for reuse.
// It is safe for concurrent use.
type Client struct {
	grants  []granted
	options Options
	vetter  *vetter
	traffic *Traffic
	// mu guards transports, which grow when networks are withdrawn.
	mu         sync.Mutex
	transports map[identity]*http.Transport
	// connect is dial; tests without a network replace it.
	connect func(ctx context.Context, network, address string, allowed []netip.Prefix) (net.Conn, error)
}

// granted is a grant with its transport.
type granted struct {
	Grant
	transport *http.Transport
	label     string // for the observer
}

// New returns a client that sends what the grants allow. Of several matching grants it uses
// the first that lists the request's credential, or the first. New connects to nothing.
func New(grants []Grant, options Options) (*Client, error) {
	options = options.withDefaults()
	if err := options.validate(); err != nil {
		return nil, err
	}
	c := &Client{options: options, vetter: newVetter(), traffic: options.Traffic, transports: map[identity]*http.Transport{}}
	if c.traffic == nil {
		c.traffic = newTraffic(options)
	}
	c.connect = c.dial
	for _, g := range grants {
		if err := g.Validate(); err != nil {
			return nil, err
		}
		c.grants = append(c.grants, granted{g, c.transportOf(g), hostPort(g.Host, g.Port)})
	}
	return c, nil
}

// Close closes the idle connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, transport := range c.transports {
		transport.CloseIdleConnections()
	}
}

// Send sends the requests in parallel and returns one result for each, in their order. A
// refused or failed request does not affect the others. Results hold no secret of the
// credentials. The error is an *abi.Error.
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
			results[i] = resultOf(response, err)
		})
	}
	wg.Wait()
	return results, nil
}

// resultOf scrubs nothing: a mark in the provider's own text would confirm a guessed secret.
// Foreign texts are scrubbed at their origin.
func resultOf(response *abi.HttpResponse, err *abi.Error) *abi.HttpResult {
	if err == nil {
		return &abi.HttpResult{Response: response}
	}
	// Invariant S4 (host/SECURITY.md): words of the provider are never scrubbed.
	return &abi.HttpResult{Code: uint32(err.Code), Error: &abi.ErrorDetail{
		Message: text.Line(err.Message, maxErrorMessageSize), RetryAfterMs: err.RetryAfter.Milliseconds()}}
}

// sendOne sends a request and follows as many redirects as it allows.
func (c *Client) sendOne(ctx context.Context, request *abi.HttpRequest, bytesLeft *atomic.Int64) (*abi.HttpResponse, *abi.Error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout(request.TimeoutMs))
	defer cancel()
	call, e := c.authorize(request, false)
	if e != nil {
		return nil, c.refuse(e)
	}
	for hops := request.FollowRedirects; e == nil; hops-- {
		var out *answer
		if out, e = c.sendCall(ctx, call, bytesLeft); e != nil {
			return nil, e
		}
		if hops == 0 || !out.redirects() {
			return out.response, nil
		}
		out.refund(bytesLeft)
		call, e = c.redirect(call, out)
	}
	c.options.Observer.Refused(e.Code.String())
	return nil, e
}

// refuse reports a refusal, and counts the request as sent: a provider must not learn more
// from refused requests than from sent ones.
func (c *Client) refuse(e *abi.Error) *abi.Error {
	e = c.unsent(e)
	c.options.Observer.Refused(e.Code.String())
	return e
}

// unsent charges an unsent request to the provider's rate. Above the rate the answer says
// nothing else.
func (c *Client) unsent(e *abi.Error) *abi.Error {
	// Invariant S5 (host/SECURITY.md): refused and sent requests share one rate.
	if c.traffic.limiter.Allow() {
		return e
	}
	wait := time.Duration(float64(time.Second) / c.traffic.perSecond())
	return &abi.Error{Code: abi.CodeThrottled, RetryAfter: roundUp(wait),
		Message: fmt.Sprintf("more than %v requests per second, refused ones included", c.traffic.perSecond())}
}

// timeout is one request's; 0 means the longest.
func (c *Client) timeout(ms int64) time.Duration {
	if ms == 0 || ms > c.options.MaxTimeout.Milliseconds() {
		return c.options.MaxTimeout
	}
	return time.Duration(ms) * time.Millisecond
}

// enter waits for the provider's rate and concurrency, and the host's. The returned function
// ends the turn.
func (c *Client) enter(ctx context.Context, call *call) (func(), *abi.Error) {
	if wait := call.host.quiet(); wait > 0 {
		if !fits(ctx, wait) {
			return nil, c.throttled(call, "retry_after", wait, "the server asked for a pause (Retry-After)")
		}
		if err := sleep(ctx, wait); err != nil {
			return nil, outOfTime(call)
		}
	}
	turn := c.traffic.limiter.Reserve()
	if wait := turn.Delay(); wait > 0 && !fits(ctx, wait) {
		turn.Cancel()
		return nil, c.throttled(call, "rate", wait, fmt.Sprintf("more than %v requests per second", c.traffic.perSecond()))
	} else if err := sleep(ctx, wait); err != nil {
		turn.Cancel()
		return nil, outOfTime(call)
	}
	// The host's slot first: requests that wait for a slow host must not block others.
	if call.host.slots.take(ctx) != nil {
		return nil, c.crowded(call)
	}
	if c.traffic.slots.take(ctx) != nil {
		call.host.slots.leave()
		return nil, c.crowded(call)
	}
	return func() { c.traffic.slots.leave(); call.host.slots.leave() }, nil
}

func (c *Client) crowded(call *call) *abi.Error {
	c.options.Observer.Throttled(call.grant.label, "concurrency")
	return outOfTime(call)
}

func (c *Client) throttled(call *call, reason string, wait time.Duration, why string) *abi.Error {
	c.options.Observer.Throttled(call.grant.label, reason)
	return &abi.Error{Code: abi.CodeThrottled, RetryAfter: roundUp(wait),
		Message: fmt.Sprintf("%s: %s", call.name, why)}
}

// roundUp rounds a wait for a provider up: the ABI counts milliseconds, and 0 means none.
func roundUp(wait time.Duration) time.Duration {
	return min(maxRetryAfter, wait.Truncate(time.Millisecond)+time.Millisecond)
}

func outOfTime(call *call) *abi.Error {
	return &abi.Error{Code: abi.CodeDeadline, Message: fmt.Sprintf("%s: the time was over before the request could be sent", call.name)}
}
