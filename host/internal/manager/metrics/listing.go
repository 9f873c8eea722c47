package metrics

import (
	"k8s.io/component-base/metrics"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

type listingVecs struct {
	listings  *metrics.CounterVec
	instances *metrics.GaugeVec
	answers   *metrics.CounterVec
}

func newListingVecs() *listingVecs {
	return &listingVecs{
		listings:  counterVec("provider_listings_total", "Listings of all instances of the provider, by result (complete, failed).", "provider", "result"),
		instances: gaugeVec("provider_listed_instances", "Instances in the last complete listing of the provider.", "provider"),
		answers: counterVec("provider_node_answers_total",
			"Questions of the control loops about single Nodes, by op and source of the answer (listing, direct, later: no listing yet).", "provider", "op", "from"),
	}
}

func (v *listingVecs) all() []metrics.Registerable {
	return []metrics.Registerable{v.listings, v.instances, v.answers}
}

// Listing are the metrics of answers from listings.
type Listing struct {
	vecs     *listingVecs
	provider string
}

// Listed records a complete listing.
func (l *Listing) Listed(instances int) {
	l.vecs.listings.WithLabelValues(l.provider, "complete").Inc()
	l.vecs.instances.WithLabelValues(l.provider).Set(float64(instances))
}

// Failed records a failed listing.
func (l *Listing) Failed() { l.vecs.listings.WithLabelValues(l.provider, "failed").Inc() }

// Answered records the source of an answer about a Node.
func (l *Listing) Answered(op abi.Op, from string) {
	l.vecs.answers.WithLabelValues(l.provider, op.String(), from).Inc()
}
