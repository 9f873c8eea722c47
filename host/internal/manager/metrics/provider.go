package metrics

import "github.com/wasm-ccm/wasm-ccm/abi"

// Provider are the metrics of one configured provider. Safe for concurrent
// use.
type Provider struct {
	metrics *Metrics
	name    string
	rollout *Rollout
}

// Provider returns the metrics of the provider with that configured name, the
// same ones each time. The name becomes a label: it must be the
// administrator's, never a guest's.
func (m *Metrics) Provider(name string) *Provider {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.providers[name]
	if p == nil {
		p = &Provider{metrics: m, name: name, rollout: newRollout(m.rollout, name)}
		m.providers[name] = p
		// From 0 on: the first increase of a counter that begins with 1 is invisible.
		for _, op := range abi.Ops() {
			m.background.backoffs.WithLabelValues(name, op.String())
		}
	}
	return p
}

// Rollout are the metrics of offered, serving and rejected modules.
func (p *Provider) Rollout() *Rollout { return p.rollout }

// Background are the metrics of ops in the background.
func (p *Provider) Background() *Background {
	return &Background{vecs: p.metrics.background, provider: p.name}
}

// Brake are the metrics of the deletion brake.
func (p *Provider) Brake() *Brake { return &Brake{vecs: p.metrics.brake, provider: p.name} }

// Listing are the metrics of answers from listings.
func (p *Provider) Listing() *Listing { return &Listing{vecs: p.metrics.listing, provider: p.name} }

// Egress are the metrics of the provider's HTTP requests.
func (p *Provider) Egress() *Egress { return &Egress{vecs: p.metrics.egress, provider: p.name} }

// Serving records a takeover by a new generation. name, version and digest are
// the module's, engineName is its engine's.
func (p *Provider) Serving(name, version, digest, engineName string) {
	p.rollout.Serving(name, version, digest, engineName)
}

// Rejected records the rejection of the source's content.
func (p *Provider) Rejected(reason string) { p.rollout.Rejected(reason) }

// InstanceCreated records a new instance.
func (p *Provider) InstanceCreated() { p.metrics.instances.WithLabelValues(p.name).Inc() }

// InstanceDiscarded records the end of an instance.
func (p *Provider) InstanceDiscarded(reason string) {
	p.metrics.instances.WithLabelValues(p.name).Dec()
	p.metrics.discarded.WithLabelValues(p.name, reason).Inc()
}

// Dropped records a dropped log line or Event.
func (p *Provider) Dropped(what string) { p.metrics.dropped.WithLabelValues(p.name, what).Inc() }
