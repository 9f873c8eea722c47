// Package metrics holds the Prometheus metrics of this manager, beside those
// that Kubernetes' own packages register, and the wrapper around the one method
// that runs every op.
//
// Every metric about a provider has the label provider: the provider's name in
// the configuration, not the name in its module.
package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
)

const namespace = "wasm_ccm"

// Metrics are the metrics of one manager. Safe for concurrent use.
type Metrics struct {
	opDuration  *metrics.HistogramVec
	instances   *metrics.GaugeVec
	discarded   *metrics.CounterVec
	dropped     *metrics.CounterVec
	configError *metrics.Gauge
	rollout     *rolloutVecs
	egress      *egressVecs
	background  *backgroundVecs
	brake       *brakeVecs
	listing     *listingVecs
	told        *toldVecs

	mu        sync.Mutex
	providers map[string]*Provider
}

// New returns unregistered metrics.
func New() *Metrics {
	return &Metrics{
		opDuration: histogramVec("provider_op_duration_seconds", "Time of one request to the provider, waiting for an instance included, by op and outcome.",
			metrics.ExponentialBuckets(0.00005, 4, 11), "provider", "op", "code"),
		instances: gaugeVec("provider_instances", "Instances of the provider's module.", "provider"),
		discarded: counterVec("provider_instances_discarded_total", "Instances that were discarded, by reason (failed, deadline, quota, closed, fresh, idle); only the first two are faults.", "provider", "reason"),
		dropped:   counterVec("provider_dropped_total", "Log lines and Events of the provider that were dropped because of their rate.", "provider", "what"),
		configError: metrics.NewGauge(&metrics.GaugeOpts{
			Namespace:      namespace,
			Name:           "config_rejected",
			Help:           "1 while the file of --config is invalid and the previous configuration is in force.",
			StabilityLevel: metrics.ALPHA,
		}),
		rollout:    newRolloutVecs(),
		egress:     newEgressVecs(),
		background: newBackgroundVecs(),
		brake:      newBrakeVecs(),
		listing:    newListingVecs(),
		told:       newToldVecs(),
		providers:  map[string]*Provider{},
	}
}

// Register registers the metrics with a registry, e.g. legacyregistry.
func (m *Metrics) Register(register func(...metrics.Registerable)) {
	register(m.opDuration, m.instances, m.discarded, m.dropped, m.configError)
	register(m.rollout.all()...)
	register(m.egress.all()...)
	register(m.background.all()...)
	register(m.brake.all()...)
	register(m.listing.all()...)
	register(m.told.all()...)
}

// Remove deletes all series of a removed provider.
func (m *Metrics) Remove(provider string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.providers, provider)
	m.Register(func(all ...metrics.Registerable) {
		for _, one := range all {
			if vec, ok := one.(partial); ok && vec.IsCreated() {
				vec.DeletePartialMatch(prometheus.Labels{labelProvider: provider})
			}
		}
	})
}

// labelProvider is the label of every metric about one provider.
const labelProvider = "provider"

// partial is a metric with labels.
type partial interface {
	IsCreated() bool
	DeletePartialMatch(prometheus.Labels) int
}

// ConfigRejected records whether the file of --config is valid.
func (m *Metrics) ConfigRejected(rejected bool) { m.configError.Set(boolean(rejected)) }

func boolean(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

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

func histogramVec(name, help string, buckets []float64, labels ...string) *metrics.HistogramVec {
	return metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: namespace, Name: name, Help: help, Buckets: buckets, StabilityLevel: metrics.ALPHA,
	}, labels)
}
