package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/writegate"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// errNoVerdict tells the breaker that an exchange says nothing about the host.
var errNoVerdict = errors.New("no verdict")

// patience is the silence after which a host counts as failing. A provider may have a
// shorter timeout.
const patience = time.Second

// attempt sends a request once, unless the host's breaker is open.
func (c *Client) attempt(ctx context.Context, call *call, bytesLeft *atomic.Int64) outcome {
	// Invariant E8 (host/SECURITY.md): a failing host gets no request until one request has been
	// answered.
	if call.host.breaker.State() == gobreaker.StateOpen {
		return outcome{err: c.unsent(c.held(call))}
	}
	if e := c.permit(call); e != nil {
		return outcome{err: c.refuse(e)}
	}
	// The credential first: it may send requests that need turns, too.
	defer call.unanswered()
	req, e := c.newRequest(ctx, call)
	if e != nil {
		return outcome{err: c.unsent(e)}
	}
	leave, e := c.enter(ctx, call)
	if e != nil {
		return outcome{err: e}
	}
	defer leave()
	if e := c.permit(call); e != nil { // the wait may have been long
		return outcome{err: c.refuse(e)}
	}
	done, err := call.host.breaker.Allow()
	if err != nil {
		return outcome{err: c.held(call)}
	}
	out, verdict := c.observed(req, call, bytesLeft)
	if verdict != nil && !errors.Is(verdict, errNoVerdict) {
		call.host.fault(text.Line(c.reason(call, verdict, out.established), maxFaultSize))
	}
	done(verdict)
	if pause, ok := out.retryAfter(); ok {
		call.host.pause(min(pause, c.options.MaxRetryWait))
	}
	return out
}

// observed is one exchange with its verdict about the host.
func (c *Client) observed(req *http.Request, call *call, bytesLeft *atomic.Int64) (out outcome, verdict error) {
	var established atomic.Bool
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { established.Store(true) },
	})
	label := call.grant.label
	writegate.FromContext(ctx).Sent()
	c.options.Observer.InFlight(label, 1)
	start := time.Now()
	answer, err := c.exchange(req.WithContext(ctx), call, bytesLeft)
	took := time.Since(start)
	c.options.Observer.InFlight(label, -1)
	out = outcome{answer: answer, established: established.Load()}
	if err != nil {
		out.err = c.failure(ctx, call, err, out.established)
		out.transient = transient(ctx, err)
	}
	c.options.Observer.Requested(ctx, c.seen(call, out, start, took))
	return out, judge(ctx, out, err, took)
}

// seen is an exchange in the form for observers.
func (c *Client) seen(call *call, out outcome, start time.Time, took time.Duration) Exchange {
	// Scrubbed first, then cut: half a secret would not be found.
	path := c.scrubString(call.target.path)
	x := Exchange{
		Host: call.grant.label, Server: hostPort(call.target.host, call.target.port), Method: call.request.Method,
		Path: text.Line(path, maxTargetSize), Template: Template(path), Status: out.status(),
		Start: start, Took: took, Sent: len(call.request.Body),
	}
	if out.err != nil {
		x.Result = out.err.Code.String()
		return x
	}
	x.Result = strconv.Itoa(x.Status/100) + "xx"
	x.Received = len(out.answer.response.Body)
	return x
}

func (c *Client) exchange(req *http.Request, call *call, bytesLeft *atomic.Int64) (*answer, error) {
	// RoundTrip, not an http.Client: no redirects, no cookies, and errors without the URL.
	resp, err := call.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return c.readAnswer(resp, &meter{left: bytesLeft}, call)
}

// judge is the breaker's verdict: nil for a working host.
func judge(ctx context.Context, out outcome, err error, took time.Duration) error {
	var refused *refusedError
	var own *certificateError
	switch {
	case err == nil && out.status() >= http.StatusBadGateway && out.status() <= http.StatusGatewayTimeout:
		return fmt.Errorf("status %d", out.status())
	case err == nil, errors.Is(err, errTooLarge), errors.Is(err, errUnsearchable):
		return nil
	case errors.As(err, &refused), errors.As(err, &own), errors.Is(ctx.Err(), context.Canceled):
		return errNoVerdict
	case ctx.Err() != nil && took < patience:
		return errNoVerdict
	case ctx.Err() != nil:
		return fmt.Errorf("no answer within %s", took.Round(time.Millisecond))
	}
	return err
}

// transient reports whether an error may disappear by itself.
func transient(ctx context.Context, err error) bool {
	var refused *refusedError
	var own *certificateError
	var verification *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	var dns *net.DNSError
	switch {
	case ctx.Err() != nil, errors.Is(err, errTooLarge), headersTooLarge(err), errors.Is(err, errUnsearchable),
		errors.As(err, &refused), errors.As(err, &own), errors.As(err, &verification), errors.As(err, &plain):
		return false
	}
	return !errors.As(err, &dns) || !dns.IsNotFound
}

// reason is the text of an exchange's error. Without a connection nothing was sent, and the
// error has only names chosen by the provider, and no secret.
func (c *Client) reason(call *call, err error, established bool) string {
	var own *certificateError
	if established || call.foreign || errors.As(err, &own) {
		return c.scrubString(err.Error())
	}
	return err.Error()
}

// failure maps a transport error.
func (c *Client) failure(ctx context.Context, call *call, err error, established bool) *abi.Error {
	method := call.request.Method
	e := &abi.Error{Code: abi.CodeUnavailable, Message: fmt.Sprintf("%s %s: %s", method, call.name, c.reason(call, err, established))}
	var refused *refusedError
	var unknown x509.UnknownAuthorityError
	switch {
	case !call.foreign && errors.As(err, &unknown):
		e.Message += "; if the cloud has a CA of its own, give it as caBundle of the grant in the HostConfiguration (providers[].grants)"
	case errors.As(err, &refused):
		e.Code = abi.CodeDenied
		e.Message = fmt.Sprintf("%s %s: the host resolves to an address that is refused: %v", method, call.name, refused)
	case errors.Is(err, errTooLarge), headersTooLarge(err):
		e.Code = abi.CodeTooLarge
	case errors.Is(err, errUnsearchable):
		e.Code = abi.CodeDenied
	case ctx.Err() != nil:
		e.Code = abi.CodeDeadline
		e.Message = fmt.Sprintf("%s %s: no complete answer in time", method, call.name)
	}
	return e
}

// headersTooLarge recognises net/http's errors by their text; they have no type.
func headersTooLarge(err error) bool {
	text := err.Error()
	return strings.Contains(text, "response headers exceeded") || strings.Contains(text, "response header list larger")
}
