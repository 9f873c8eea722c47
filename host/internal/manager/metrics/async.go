package metrics

import (
	"time"

	"k8s.io/component-base/metrics"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

type backgroundVecs struct {
	ops       *metrics.GaugeVec
	durations *metrics.HistogramVec
	dropped   *metrics.CounterVec
	busy      *metrics.CounterVec
	backoffs  *metrics.CounterVec
}

func newBackgroundVecs() *backgroundVecs {
	return &backgroundVecs{
		ops: gaugeVec("provider_background_ops", "Requests to the provider that run in the background, since they exceeded the foreground time.", "provider"),
		durations: histogramVec("provider_background_duration_seconds", "Time of one request to the provider that ended in the background, by op and outcome.",
			metrics.ExponentialBuckets(0.05, 3, 10), "provider", "op", "code"),
		dropped:  counterVec("provider_background_results_dropped_total", "Uncollected results of background requests, by reason (expired, superseded, crowded).", "provider", "op", "reason"),
		busy:     counterVec("provider_busy_total", "Requests to the provider that were postponed or ended for lack of room.", "provider", "op"),
		backoffs: counterVec("provider_backoffs_total", "Backoffs for objects on which the provider hung or crashed repeatedly.", "provider", "op"),
	}
}

func (v *backgroundVecs) all() []metrics.Registerable {
	return []metrics.Registerable{v.ops, v.durations, v.dropped, v.busy, v.backoffs}
}

// Background are the metrics of ops without a waiting worker, and of the
// measures against a repeatedly failing guest.
type Background struct {
	vecs     *backgroundVecs
	provider string
}

// Running records the number of ops in the background.
func (b *Background) Running(ops int) { b.vecs.ops.WithLabelValues(b.provider).Set(float64(ops)) }

// Done records the end of an op in the background.
func (b *Background) Done(op abi.Op, took time.Duration, err error) {
	b.vecs.durations.WithLabelValues(b.provider, op.String(), outcome(err)).Observe(took.Seconds())
}

// Dropped records a result without a reader.
func (b *Background) Dropped(op abi.Op, reason string) {
	b.vecs.dropped.WithLabelValues(b.provider, op.String(), reason).Inc()
}

// Busy records an op without a free place.
func (b *Background) Busy(op abi.Op) { b.vecs.busy.WithLabelValues(b.provider, op.String()).Inc() }

// BackedOff records a pause of calls about an object.
func (b *Background) BackedOff(op abi.Op) {
	b.vecs.backoffs.WithLabelValues(b.provider, op.String()).Inc()
}
