package egress

import "time"

// Observer is told what a client does. host is HOST:PORT of a grant, with its
// wildcard, so there are no more values than grants. It is safe for concurrent
// use, and returns at once: locks may be held.
type Observer interface {
	// Requested tells of one exchange with a server, retries and redirects
	// each. result is "2xx" to "5xx", or the name of an abi.Code.
	Requested(host, method, result string, took time.Duration)
	// InFlight adds delta to the exchanges that are under way.
	InFlight(host string, delta int)
	// Retried tells that a request is sent again. reason is "connect",
	// "connection", "401", "429", "502", "503" or "504".
	Retried(host, reason string)
	// Throttled tells that a request was not sent, or not sent again. reason is
	// "rate", "concurrency", "retry_after", "retry_budget" or "breaker".
	Throttled(host, reason string)
	// BreakerChanged tells of the breaker of one host. States are "closed",
	// "half-open" and "open". A breaker begins and ends closed.
	BreakerChanged(host, from, to string)
	// Refused tells that a request was refused before anything was sent. code
	// is the name of an abi.Code.
	Refused(code string)
}

type nobody struct{}

func (nobody) Requested(string, string, string, time.Duration) {}
func (nobody) InFlight(string, int)                            {}
func (nobody) Retried(string, string)                          {}
func (nobody) Throttled(string, string)                        {}
func (nobody) BreakerChanged(string, string, string)           {}
func (nobody) Refused(string)                                  {}
