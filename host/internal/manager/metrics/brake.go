package metrics

import "k8s.io/component-base/metrics"

type brakeVecs struct {
	engaged *metrics.GaugeVec
	gone    *metrics.GaugeVec
	permits *metrics.GaugeVec
	failing *metrics.GaugeVec
	held    *metrics.CounterVec
	letGo   *metrics.CounterVec
	doubted *metrics.CounterVec
}

func newBrakeVecs() *brakeVecs {
	return &brakeVecs{
		engaged: gaugeVec("deletion_brake_engaged", "1 while the deletion brake holds Nodes whose machines, as the provider says, do not exist.", "provider"),
		gone:    gaugeVec("deletion_brake_gone_nodes", "Existing Nodes whose machines, as the provider says, do not exist.", "provider"),
		permits: gaugeVec("deletion_brake_permits", "Nodes that may be deleted now without an autoscaler's mark; 0 for some time after a wrong answer of the provider.", "provider"),
		failing: gaugeVec("deletion_brake_failing", "1 while the deletion brake cannot read or write what it needs (record, heartbeats, annotation).", "provider", "what"),
		held:    counterVec("deletion_brake_held_total", "Nodes that the deletion brake held, by reason; each Node counts once.", "provider", "reason"),
		letGo:   counterVec("deletion_brake_passed_total", "Permitted deletions of Nodes whose machines do not exist; a failed deletion counts again.", "provider"),
		doubted: counterVec("node_gone_contradicted_total", "Wrong answers \"does not exist\", by their contradiction (instance, kubelet, witness).", "provider", "by"),
	}
}

func (v *brakeVecs) all() []metrics.Registerable {
	return []metrics.Registerable{v.engaged, v.gone, v.permits, v.failing, v.held, v.letGo, v.doubted}
}

// Brake are the metrics of the deletion brake.
type Brake struct {
	vecs     *brakeVecs
	provider string
}

// Engaged records whether Nodes wait for permits.
func (b *Brake) Engaged(on bool) { b.vecs.engaged.WithLabelValues(b.provider).Set(boolean(on)) }

// Seen records the number of Nodes reported as gone, and the permits.
func (b *Brake) Seen(gone int, permits float64) {
	b.vecs.gone.WithLabelValues(b.provider).Set(float64(gone))
	b.vecs.permits.WithLabelValues(b.provider).Set(permits)
}

// Failing records whether the API server lacks something that the brake needs.
func (b *Brake) Failing(what string, on bool) {
	b.vecs.failing.WithLabelValues(b.provider, what).Set(boolean(on))
}

// Held records a Node that stays.
func (b *Brake) Held(reason string) { b.vecs.held.WithLabelValues(b.provider, reason).Inc() }

// LetGo records a Node that may be deleted.
func (b *Brake) LetGo() { b.vecs.letGo.WithLabelValues(b.provider).Inc() }

// Contradicted records evidence against the provider's answer.
func (b *Brake) Contradicted(by string) { b.vecs.doubted.WithLabelValues(b.provider, by).Inc() }
