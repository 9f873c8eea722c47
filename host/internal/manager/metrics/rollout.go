package metrics

import (
	"slices"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
)

// Results of provider_rollouts_total.
const (
	resultServing    = "serving"
	resultRejected   = "rejected"
	resultKept       = "kept"
	resultHeld       = "held"
	resultRolledBack = "rolled_back"
	resultPromoted   = "promoted"
)

type rolloutVecs struct {
	serving    *metrics.GaugeVec
	rejected   *metrics.GaugeVec
	unreached  *metrics.GaugeVec
	phase      *metrics.GaugeVec
	generation *metrics.GaugeVec
	rollouts   *metrics.CounterVec
	durations  *metrics.HistogramVec
	shadowed   *metrics.CounterVec
	rehearsed  *metrics.CounterVec
}

func newRolloutVecs() *rolloutVecs {
	return &rolloutVecs{
		serving:    gaugeVec("provider_serving", "1 for the serving generation of the provider; name is the module's, engine runs it.", "provider", "name", "version", "digest", "engine"),
		rejected:   gaugeVec("provider_rejected", "1 while the source's content is rejected, by reason; the previous generation serves.", "provider", "reason"),
		unreached:  gaugeVec("provider_source_unavailable", "1 while the registry of the provider's image is unavailable, by reason; its last image stays.", "provider", "reason"),
		phase:      gaugeVec("provider_rollout_phase", "1 for the present or last phase of the provider's newest rollout.", "provider", "phase"),
		generation: gaugeVec("provider_generation", "Number of the provider's serving generation.", "provider"),
		rollouts:   counterVec("provider_rollouts_total", "Modules and configurations that were offered, by result (serving, kept, rejected, held, rolled_back, promoted) and the reason.", "provider", "result", "reason"),
		durations: histogramVec("provider_rollout_duration_seconds", "Time from the offer of a generation until it served.",
			metrics.ExponentialBuckets(0.025, 2, 12), "provider"),
		shadowed:  counterVec("provider_shadow_answers_total", "Answers of new generations before they serve, compared with those of the serving one (same, different, incomparable).", "provider", "result"),
		rehearsed: counterVec("provider_rehearsal_requests_total", "Requests and writes during such comparisons, by result (sent, kept_back).", "provider", "result"),
	}
}

func (v *rolloutVecs) all() []metrics.Registerable {
	return []metrics.Registerable{v.serving, v.rejected, v.unreached, v.phase, v.generation, v.rollouts, v.durations, v.shadowed, v.rehearsed}
}

// Rollout are the metrics of offered, serving and rejected modules.
type Rollout struct {
	vecs     *rolloutVecs
	provider string
	serving  *only
	rejected *only
	phase    *only
	// unreached has the reason why the registry cannot be reached.
	unreached *only
}

func newRollout(vecs *rolloutVecs, provider string) *Rollout {
	return &Rollout{
		vecs: vecs, provider: provider,
		serving: &only{vec: vecs.serving}, rejected: &only{vec: vecs.rejected}, phase: &only{vec: vecs.phase}, unreached: &only{vec: vecs.unreached},
	}
}

// Serving records a takeover by a new generation; see Serves.
func (r *Rollout) Serving(name, version, digest, engineName string) {
	r.Serves(name, version, digest, engineName)
	r.count(resultServing, "")
}

// Serves records the serving module, and that nothing is rejected any more.
func (r *Rollout) Serves(name, version, digest, engineName string) {
	r.serving.set(r.provider, name, version, digest, engineName)
	r.rejected.clear()
}

// Rejected records the rejection of the source's content.
func (r *Rollout) Rejected(reason string) {
	r.rejected.set(r.provider, reason)
	r.count(resultRejected, reason)
}

// SourceUnavailable records why the registry cannot be reached, "" that it can.
func (r *Rollout) SourceUnavailable(reason string) {
	if reason == "" {
		r.unreached.clear()
		return
	}
	r.unreached.set(r.provider, reason)
}

// Kept records that a generation passed its observation.
func (r *Rollout) Kept() { r.count(resultKept, "") }

// Held records that a generation waits for a person.
func (r *Rollout) Held(reason string) { r.count(resultHeld, reason) }

// RolledBack records the replacement of a serving generation by the good one.
func (r *Rollout) RolledBack(reason string) { r.count(resultRolledBack, reason) }

// Promoted records that a person let a generation continue.
func (r *Rollout) Promoted() { r.count(resultPromoted, "") }

// Phase records the phase of the newest rollout. There must be few different
// phases.
func (r *Rollout) Phase(phase string) { r.phase.set(r.provider, phase) }

// Generation records the number of the serving generation.
func (r *Rollout) Generation(number int64) {
	r.vecs.generation.WithLabelValues(r.provider).Set(float64(number))
}

// Took records the time from a generation's offer until it served.
func (r *Rollout) Took(d time.Duration) {
	r.vecs.durations.WithLabelValues(r.provider).Observe(d.Seconds())
}

// Shadowed records the number of answers that equal, differ from, and cannot be
// compared with those of the serving generation.
func (r *Rollout) Shadowed(same, different, incomparable int) {
	for result, n := range map[string]int{"same": same, "different": different, "incomparable": incomparable} {
		r.vecs.shadowed.WithLabelValues(r.provider, result).Add(float64(n))
	}
}

// Rehearsed records the number of requests sent to the cloud for comparisons,
// and of suppressed writes.
func (r *Rollout) Rehearsed(sent, kept int) {
	r.vecs.rehearsed.WithLabelValues(r.provider, "sent").Add(float64(sent))
	r.vecs.rehearsed.WithLabelValues(r.provider, "kept_back").Add(float64(kept))
}

func (r *Rollout) count(result, reason string) {
	r.vecs.rollouts.WithLabelValues(r.provider, result, reason).Inc()
}

// only keeps at most one series per provider.
type only struct {
	vec    *metrics.GaugeVec
	mu     sync.Mutex
	labels []string
}

// set adds the new series before it removes the old one: a scrape in between
// sees two series instead of none, for which people have alerts.
func (o *only) set(labels ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.vec.WithLabelValues(labels...).Set(1)
	if o.labels != nil && !slices.Equal(o.labels, labels) {
		o.vec.DeleteLabelValues(o.labels...)
	}
	o.labels = labels
}

func (o *only) clear() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.labels != nil {
		o.vec.DeleteLabelValues(o.labels...)
	}
	o.labels = nil
}
