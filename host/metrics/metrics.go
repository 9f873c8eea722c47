// Package metrics holds the Prometheus metrics of this manager, beside those
// that Kubernetes' own packages register, and the wrapper around the one
// method through which every op goes.
//
// It imports abi and nothing else of this project.
package metrics

import (
	"k8s.io/component-base/metrics"
)

const namespace = "wasm_ccm"

// Metrics are the metrics of one manager. Safe for concurrent use.
type Metrics struct {
	opDuration  *metrics.HistogramVec
	serving     *metrics.GaugeVec
	rollouts    *metrics.CounterVec
	instances   *metrics.GaugeVec
	discarded   *metrics.CounterVec
	sourceError *metrics.GaugeVec
	dropped     *metrics.CounterVec
	configError *metrics.Gauge
	egress      *Egress
	background  *Background
	brake       *Brake
}

// New returns metrics that are not registered yet.
func New() *Metrics {
	return &Metrics{
		opDuration: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Namespace:      namespace,
			Name:           "provider_op_duration_seconds",
			Help:           "Time of one request to the provider, waiting for an instance included, by op and outcome.",
			Buckets:        metrics.ExponentialBuckets(0.00005, 4, 11),
			StabilityLevel: metrics.ALPHA,
		}, []string{"op", "code"}),
		serving: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Namespace:      namespace,
			Name:           "provider_serving",
			Help:           "1 for the generation of the provider that serves.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"provider", "version", "digest"}),
		rollouts: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace:      namespace,
			Name:           "provider_rollouts_total",
			Help:           "Modules and configurations that were offered, by result (serving or rejected) and the reason of a rejection.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"result", "reason"}),
		sourceError: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Namespace:      namespace,
			Name:           "provider_rejected",
			Help:           "1 while what the source holds now is rejected, by reason; the generation before it goes on serving.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"reason"}),
		dropped: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace:      namespace,
			Name:           "provider_dropped_total",
			Help:           "Log lines and Events of the provider that were dropped because of their rate.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"what"}),
		configError: metrics.NewGauge(&metrics.GaugeOpts{
			Namespace:      namespace,
			Name:           "config_rejected",
			Help:           "1 while the file of --config is not valid, so that what it said before holds.",
			StabilityLevel: metrics.ALPHA,
		}),
		egress:     newEgress(),
		background: newBackground(),
		brake:      newBrake(),
		instances: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Namespace:      namespace,
			Name:           "provider_instances",
			Help:           "Instances of the provider's module.",
			StabilityLevel: metrics.ALPHA,
		}, nil),
		discarded: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace:      namespace,
			Name:           "provider_instances_discarded_total",
			Help:           "Instances that were thrown away, by reason (trap, deadline, quota, closed).",
			StabilityLevel: metrics.ALPHA,
		}, []string{"reason"}),
	}
}

// Register registers the metrics with a registry, e.g. legacyregistry.
func (m *Metrics) Register(register func(...metrics.Registerable)) {
	register(m.opDuration, m.serving, m.rollouts, m.sourceError, m.instances, m.discarded, m.dropped, m.configError)
	register(m.egress.all()...)
	register(m.background.all()...)
	register(m.brake.all()...)
}

// Background are the metrics of ops in the background.
func (m *Metrics) Background() *Background { return m.background }

// Brake are the metrics of the deletion brake.
func (m *Metrics) Brake() *Brake { return m.brake }

// Egress are the metrics of the provider's HTTP requests.
func (m *Metrics) Egress() *Egress { return m.egress }

// ConfigRejected records whether the file of --config is valid.
func (m *Metrics) ConfigRejected(rejected bool) {
	value := 0.0
	if rejected {
		value = 1
	}
	m.configError.Set(value)
}

// Serving records that a generation serves instead of the one before.
func (m *Metrics) Serving(provider, version, digest string) {
	m.serving.Reset()
	m.serving.WithLabelValues(provider, version, digest).Set(1)
	m.sourceError.Reset()
	m.rollouts.WithLabelValues("serving", "").Inc()
}

// Rejected records that what the source holds was rejected.
func (m *Metrics) Rejected(reason string) {
	m.sourceError.Reset()
	m.sourceError.WithLabelValues(reason).Set(1)
	m.rollouts.WithLabelValues("rejected", reason).Inc()
}

// InstanceCreated records a new instance.
func (m *Metrics) InstanceCreated() { m.instances.WithLabelValues().Inc() }

// InstanceDiscarded records the end of an instance.
func (m *Metrics) InstanceDiscarded(reason string) {
	m.instances.WithLabelValues().Dec()
	m.discarded.WithLabelValues(reason).Inc()
}

// Dropped records that a log line or an Event was dropped.
func (m *Metrics) Dropped(what string) { m.dropped.WithLabelValues(what).Inc() }

func counterVec(name, help string, labels ...string) *metrics.CounterVec {
	return metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Name: name, Help: help, StabilityLevel: metrics.ALPHA,
	}, labels)
}

func gaugeVec(name, help string, labels ...string) *metrics.GaugeVec {
	return metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: namespace, Name: name, Help: help, StabilityLevel: metrics.ALPHA,
	}, labels)
}
