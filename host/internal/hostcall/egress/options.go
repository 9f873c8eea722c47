package egress

import (
	"crypto/x509"
	"fmt"
	"net"
	"time"
)

// Fixed bounds.
const (
	dialTimeout         = 10 * time.Second
	tlsTimeout          = 10 * time.Second
	idleTimeout         = 90 * time.Second
	maxIdleConns        = 64       // of one transport
	maxHeaderBytes      = 64 << 10 // of a request, and of a response
	maxRequestHeaders   = 128
	maxResponseHeaders  = 256
	maxURLBytes         = 8 << 10
	maxScopeBytes       = 256
	maxRedirects        = 10
	maxHosts            = 256 // with kept state
	maxRetryAfter       = time.Hour
	defaultUserAgent    = "wasm-ccm"
	maxErrorMessageSize = 1 << 10
	maxTargetSize       = 256 // of a URL in an error
	maxFaultSize        = 100 // of a broken host's fault
)

// Options bound a Client. The zero value of a field is its default.
type Options struct {
	// MaxBatchBytes bounds the bodies and headers of all responses of one
	// batch, after decompression. Default 8 MiB.
	MaxBatchBytes int64
	// MaxRequestBytes bounds the body of one request. Default 8 MiB.
	MaxRequestBytes int64
	// MaxTimeout bounds one request with its retries and redirects, whatever its op's deadline.
	// Default 5 min.
	MaxTimeout time.Duration
	// MaxConcurrent bounds the running requests. Default 16.
	MaxConcurrent int
	// MaxPerHost bounds the requests to one host and port, so that a slow host
	// leaves room for others. Default three quarters of MaxConcurrent, at most
	// MaxConcurrent.
	MaxPerHost int
	// RequestsPerSecond and Burst bound the rate. Defaults 100 and 200.
	RequestsPerSecond float64
	Burst             int

	// MaxRetries bounds the retries of one request. Default 3; negative: none.
	MaxRetries int
	// RetryShare is the allowed number of retries per request of the last minute, MinRetries
	// their minimum. Defaults 0.2 and 10.
	RetryShare float64
	MinRetries int
	// Backoff is the longest wait before the first retry; it doubles with each.
	// The wait is a random part of it. Default 200 ms.
	Backoff time.Duration
	// MaxRetryWait bounds one wait, also that of a server's Retry-After; beyond it, the request
	// is throttled. Default 30 s.
	MaxRetryWait time.Duration
	// BreakerFailures opens the breaker of a host: that many failures in a
	// row, or half of at least four times as many in the last minute. Default 5.
	BreakerFailures int
	// BreakerOpen is how long an open breaker blocks a host; then one request tries. Default 15
	// s.
	BreakerOpen time.Duration

	// Traffic is the previous clients' shared state; nil: none. Otherwise the options' rate and
	// concurrency apply only after Enforce.
	Traffic *Traffic

	// InForce returns the client whose grants are in force, which may be a later one, or nil for
	// none. Each request, redirect and retry is checked against its grants, too. A nil function:
	// this client.
	InForce func() *Client

	// RootCAs verify servers; nil takes the system's.
	RootCAs *x509.CertPool
	// Resolver resolves hosts; nil takes the system's.
	Resolver *net.Resolver
	// Credentials authenticate requests; nil: requests may name none.
	Credentials Credentials
	// Observer is told the client's actions; nil: nobody.
	Observer Observer
}

func (o Options) withDefaults() Options {
	setDefault(&o.MaxBatchBytes, 8<<20)
	setDefault(&o.MaxRequestBytes, 8<<20)
	setDefault(&o.MaxTimeout, 5*time.Minute)
	setDefault(&o.MaxConcurrent, 16)
	setDefault(&o.MaxPerHost, max(1, o.MaxConcurrent*3/4))
	o.MaxPerHost = min(o.MaxPerHost, o.MaxConcurrent)
	setDefault(&o.RequestsPerSecond, 100)
	setDefault(&o.Burst, 200)
	setDefault(&o.MaxRetries, 3)
	setDefault(&o.RetryShare, 0.2)
	setDefault(&o.MinRetries, 10)
	setDefault(&o.Backoff, 200*time.Millisecond)
	setDefault(&o.MaxRetryWait, 30*time.Second)
	setDefault(&o.BreakerFailures, 5)
	setDefault(&o.BreakerOpen, 15*time.Second)
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	return o
}

func (o Options) validate() error {
	for name, value := range map[string]float64{
		"MaxBatchBytes": float64(o.MaxBatchBytes), "MaxRequestBytes": float64(o.MaxRequestBytes), "MaxTimeout": float64(o.MaxTimeout),
		"MaxConcurrent": float64(o.MaxConcurrent), "MaxPerHost": float64(o.MaxPerHost),
		"RequestsPerSecond": o.RequestsPerSecond, "Burst": float64(o.Burst),
		"RetryShare": o.RetryShare, "MinRetries": float64(o.MinRetries), "Backoff": float64(o.Backoff),
		"MaxRetryWait": float64(o.MaxRetryWait), "BreakerFailures": float64(o.BreakerFailures), "BreakerOpen": float64(o.BreakerOpen),
	} {
		if !(value > 0) {
			return fmt.Errorf("egress option %s is %v; it must be more than 0", name, value)
		}
	}
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
