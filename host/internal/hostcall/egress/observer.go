package egress

import (
	"context"
	"time"
)

// Exchange is one exchange with a server; retries, redirects and credentials' requests count
// separately. It has no query, header or body.
type Exchange struct {
	// Host is HOST:PORT of the grant, with its wildcard, so that grants bound the number of values. Server
	// is the HOST:PORT contacted.
	Host, Server string
	Method       string
	// Path is the request's, escaped and cut to 256 bytes, with objects' ids; Template is it without them.
	// Both are scrubbed.
	Path, Template string
	// Status is 0 without a response. Result is "2xx" to "5xx", or the name of an abi.Code.
	Status int
	Result string
	Start  time.Time
	Took   time.Duration
	// Sent is the size of the provider's own body, Received of the body that it gets, in bytes.
	Sent, Received int
}

// Observer is told a client's actions. host is HOST:PORT of a grant, with its wildcard, so
// that grants bound the number of values. It is safe for concurrent use, and returns at
// once: locks may be held.
type Observer interface {
	// Requested tells of a finished exchange. The context is the op's.
	Requested(ctx context.Context, x Exchange)
	// InFlight adds delta to the running exchanges.
	InFlight(host string, delta int)
	// Retried tells that a request is sent again. reason is "connect", "connection", "401",
	// "429", "502", "503" or "504".
	Retried(host, reason string)
	// Throttled tells that a request was not sent, or not sent again. reason is
	// "rate", "concurrency", "retry_after", "retry_budget" or "breaker".
	Throttled(host, reason string)
	// BreakerChanged tells of a host's breaker. States are "closed", "half-open" and "open". A
	// breaker begins and ends closed.
	BreakerChanged(host, from, to string)
	// Refused tells that a request was refused before anything was sent. code
	// is the name of an abi.Code.
	Refused(code string)
}

type nobody struct{}

func (nobody) Requested(context.Context, Exchange)   {}
func (nobody) InFlight(string, int)                  {}
func (nobody) Retried(string, string)                {}
func (nobody) Throttled(string, string)              {}
func (nobody) BreakerChanged(string, string, string) {}
func (nobody) Refused(string)                        {}
