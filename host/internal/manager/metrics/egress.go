package metrics

import (
	"context"
	"time"

	"k8s.io/component-base/metrics"
)

type egressVecs struct {
	requests  *metrics.HistogramVec
	inFlight  *metrics.GaugeVec
	retries   *metrics.CounterVec
	throttled *metrics.CounterVec
	breakers  *metrics.GaugeVec
	opened    *metrics.CounterVec
	refused   *metrics.CounterVec
}

func newEgressVecs() *egressVecs {
	return &egressVecs{
		requests: histogramVec("cloud_request_duration_seconds", "Time of one HTTP exchange with the cloud, each retry and redirect on its own, by op, host, method, path (ids of objects as *; what is beyond 128 kinds is other) and result (2xx to 5xx, or why there was no response).",
			metrics.ExponentialBuckets(0.005, 2.5, 10), "provider", "op", "host", "method", "path", "result"),
		inFlight:  gaugeVec("cloud_requests_in_flight", "HTTP exchanges with the cloud in progress.", "provider", "host"),
		retries:   counterVec("cloud_request_retries_total", "HTTP requests to the cloud that were sent again, by reason.", "provider", "host", "reason"),
		throttled: counterVec("cloud_requests_throttled_total", "HTTP requests to the cloud that were held back, by reason (rate, concurrency, retry_after, retry_budget, breaker).", "provider", "host", "reason"),
		breakers:  gaugeVec("cloud_breaker_open", "1 while a host of the cloud gets no requests after too many failures, 0.5 during a trial request.", "provider", "host"),
		opened:    counterVec("cloud_breaker_opened_total", "Openings of the breaker of a host of the cloud.", "provider", "host"),
		refused:   counterVec("cloud_requests_refused_total", "HTTP requests of the provider that were refused before anything was sent, by code; denied: no grant allows it; invalid: no grant could allow it; too_large: larger than a request may be; throttled: refused without a reason, after too many refusals.", "provider", "code"),
	}
}

func (v *egressVecs) all() []metrics.Registerable {
	return []metrics.Registerable{v.requests, v.inFlight, v.retries, v.throttled, v.breakers, v.opened, v.refused}
}

// Egress are the metrics of the HTTP requests that the host sends for the
// provider. The values of host come from grants.
type Egress struct {
	vecs     *egressVecs
	provider string
}

// Kind is a kind of exchanges. The caller bounds the number of kinds per provider.
type Kind struct{ Op, Host, Method, PathTemplate, Result string }

// Requested records one exchange.
func (e *Egress) Requested(ctx context.Context, kind Kind, took time.Duration) {
	e.vecs.requests.WithContext(ctx).WithLabelValues(e.provider, kind.Op, kind.Host, knownMethod(kind.Method), kind.PathTemplate, kind.Result).Observe(took.Seconds())
}

// knownMethod bounds the values of a label that the guest influences: a grant
// can allow other methods by name, but a label has to be short.
func knownMethod(method string) string {
	switch method {
	case "GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE":
		return method
	}
	return "other"
}

// InFlight records the begin (1) or end (-1) of exchanges.
func (e *Egress) InFlight(host string, delta int) {
	e.vecs.inFlight.WithLabelValues(e.provider, host).Add(float64(delta))
}

// Retried records a retry.
func (e *Egress) Retried(host, reason string) {
	e.vecs.retries.WithLabelValues(e.provider, host, reason).Inc()
}

// Throttled records a delayed request.
func (e *Egress) Throttled(host, reason string) {
	e.vecs.throttled.WithLabelValues(e.provider, host, reason).Inc()
}

// BreakerChanged records the state of a host's breaker.
func (e *Egress) BreakerChanged(host, _, to string) {
	value := map[string]float64{"open": 1, "half-open": 0.5}[to]
	e.vecs.breakers.WithLabelValues(e.provider, host).Set(value)
	if to == "open" {
		e.vecs.opened.WithLabelValues(e.provider, host).Inc()
	}
}

// Refused records a request without a grant, or an invalid one.
func (e *Egress) Refused(code string) { e.vecs.refused.WithLabelValues(e.provider, code).Inc() }
