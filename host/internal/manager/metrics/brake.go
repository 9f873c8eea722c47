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
		engaged: gaugeVec("deletion_brake_engaged", "1 while the provider says of so many Nodes that their machines do not exist that some wait to be deleted.", "provider"),
		gone:    gaugeVec("deletion_brake_gone_nodes", "Nodes that the provider says have no machine, and that are still there.", "provider"),
		permits: gaugeVec("deletion_brake_permits", "Nodes that may be deleted now without a mark of an autoscaler; 0 for a while after the provider was contradicted.", "provider"),
		failing: gaugeVec("deletion_brake_failing", "1 while the deletion brake cannot read or write what it needs (record, heartbeats, annotation).", "provider", "what"),
		held:    counterVec("deletion_brake_held_total", "Nodes that stayed although the provider says that their machines do not exist, by reason, once for each.", "provider", "reason"),
		letGo:   counterVec("deletion_brake_passed_total", "Nodes that may be deleted since their machines do not exist; again where the deletion failed.", "provider"),
		doubted: counterVec("node_gone_contradicted_total", "Answers \"does not exist\" that were not so, by what contradicted them (instance, kubelet, witness).", "provider", "by"),
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

// Seen records how many Nodes are said to be gone, and the permits.
func (b *Brake) Seen(gone int, permits float64) {
	b.vecs.gone.WithLabelValues(b.provider).Set(float64(gone))
	b.vecs.permits.WithLabelValues(b.provider).Set(permits)
}

// Failing records whether something of the API server is missing.
func (b *Brake) Failing(what string, on bool) {
	b.vecs.failing.WithLabelValues(b.provider, what).Set(boolean(on))
}

// Held records a Node that stays.
func (b *Brake) Held(reason string) { b.vecs.held.WithLabelValues(b.provider, reason).Inc() }

// LetGo records a Node that may be deleted.
func (b *Brake) LetGo() { b.vecs.letGo.WithLabelValues(b.provider).Inc() }

// Contradicted records that what the provider says is not so.
func (b *Brake) Contradicted(by string) { b.vecs.doubted.WithLabelValues(b.provider, by).Inc() }
