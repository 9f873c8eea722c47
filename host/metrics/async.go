package metrics

import (
	"time"

	"k8s.io/component-base/metrics"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Background are the metrics of ops that go on while no worker waits, and of
// what is done about a guest that fails again and again.
type Background struct {
	ops       *metrics.Gauge
	durations *metrics.HistogramVec
	dropped   *metrics.CounterVec
	busy      *metrics.CounterVec
	backoffs  *metrics.CounterVec
}

func newBackground() *Background {
	return &Background{
		ops: metrics.NewGauge(&metrics.GaugeOpts{
			Namespace:      namespace,
			Name:           "provider_background_ops",
			Help:           "Requests to the provider that go on in the background, since they took too long for a worker to wait.",
			StabilityLevel: metrics.ALPHA,
		}),
		durations: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Namespace:      namespace,
			Name:           "provider_background_duration_seconds",
			Help:           "Time of one request to the provider that ended in the background, by op and outcome.",
			Buckets:        metrics.ExponentialBuckets(0.05, 3, 10),
			StabilityLevel: metrics.ALPHA,
		}, []string{"op", "code"}),
		dropped:  counterVec("provider_background_results_dropped_total", "Results of background requests that nobody collected, by reason (expired, superseded, crowded).", "op", "reason"),
		busy:     counterVec("provider_busy_total", "Requests to the provider that were put off or ended for lack of room.", "op"),
		backoffs: counterVec("provider_backoffs_total", "How often the provider was not asked again about an object for a while, since it hung or crashed on it again and again.", "op"),
	}
}

func (b *Background) all() []metrics.Registerable {
	return []metrics.Registerable{b.ops, b.durations, b.dropped, b.busy, b.backoffs}
}

// Running records how many ops are in the background.
func (b *Background) Running(ops int) { b.ops.Set(float64(ops)) }

// Done records the end of an op in the background.
func (b *Background) Done(op abi.Op, took time.Duration, err error) {
	b.durations.WithLabelValues(op.String(), outcome(err)).Observe(took.Seconds())
}

// Dropped records a result that nobody collected.
func (b *Background) Dropped(op abi.Op, reason string) {
	b.dropped.WithLabelValues(op.String(), reason).Inc()
}

// Busy records an op that found no room.
func (b *Background) Busy(op abi.Op) { b.busy.WithLabelValues(op.String()).Inc() }

// BackedOff records that the provider is left alone about an object.
func (b *Background) BackedOff(op abi.Op) { b.backoffs.WithLabelValues(op.String()).Inc() }

// Brake are the metrics of the deletion brake.
type Brake struct {
	engaged *metrics.Gauge
	refused *metrics.Counter
	doubted *metrics.Counter
}

func newBrake() *Brake {
	counter := func(name, help string) *metrics.Counter {
		return metrics.NewCounter(&metrics.CounterOpts{Namespace: namespace, Name: name, Help: help, StabilityLevel: metrics.ALPHA})
	}
	return &Brake{
		engaged: metrics.NewGauge(&metrics.GaugeOpts{
			Namespace:      namespace,
			Name:           "deletion_brake_engaged",
			Help:           "1 while the provider says of too many Nodes that their instances do not exist, so that none of them is deleted.",
			StabilityLevel: metrics.ALPHA,
		}),
		refused: counter("deletion_brake_refused_total", "Answers \"does not exist\" that the deletion brake made an error of."),
		doubted: counter("node_gone_contradicted_total", "Answers \"does not exist\" that a fresh instance of the provider did not confirm."),
	}
}

func (b *Brake) all() []metrics.Registerable {
	return []metrics.Registerable{b.engaged, b.refused, b.doubted}
}

// Engaged records whether the brake is on.
func (b *Brake) Engaged(on bool) {
	value := 0.0
	if on {
		value = 1
	}
	b.engaged.Set(value)
}

// Refused records an answer that was made an error of.
func (b *Brake) Refused() { b.refused.Inc() }

// Contradicted records an answer that the second question did not confirm.
func (b *Brake) Contradicted() { b.doubted.Inc() }
