package metrics

import (
	"strings"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
)

// Told are the numbers in the manager's status. It is set as a whole, so that
// vanished entries lose their series.
type Told struct {
	Leads bool
	// CertificateEnds is zero without a certificate.
	CertificateEnds time.Time
	// Stuck counts the stuck objects.
	Stuck map[Stuck]int
	// Conditions has the state of each provider's conditions.
	Conditions map[Condition]bool
}

// Stuck groups stuck objects for the counts: by the kinds and causes of the
// status, and with "" for an object without a provider.
type Stuck struct{ Kind, Reason, Provider string }

// Condition is one type of condition of a provider.
type Condition struct{ Provider, Type string }

type toldVecs struct {
	leads       *metrics.GaugeVec
	certificate *metrics.GaugeVec
	stuck       *metrics.GaugeVec
	condition   *metrics.GaugeVec
	// shown are the present series of stuck and condition.
	mu                     sync.Mutex
	shownStuck, shownHolds series
}

func newToldVecs() *toldVecs {
	return &toldVecs{
		leads:       gaugeVec("leads", "1 while this manager leads and runs the control loops, 0 while it is a standby."),
		certificate: gaugeVec("serving_certificate_end_timestamp_seconds", "End of the secure port's certificate that ends first, in seconds since 1970."),
		stuck:       gaugeVec("stuck", "Objects that do not go on, by kind (Service, Node, Route, PersistentVolume) and by the reason that ccmctl status and why name; without a provider: objects that wait for one. The leader alone has it.", "kind", "reason", labelProvider),
		condition:   gaugeVec("provider_condition", "1 while the condition of the provider is True, else 0. Only the leader has it.", labelProvider, "condition"),
	}
}

func (v *toldVecs) all() []metrics.Registerable {
	return []metrics.Registerable{v.leads, v.certificate, v.stuck, v.condition}
}

// Tell sets the metrics to the present status.
func (m *Metrics) Tell(told Told) {
	v := m.told
	v.mu.Lock()
	defer v.mu.Unlock()
	v.leads.WithLabelValues().Set(boolean(told.Leads))
	if !told.CertificateEnds.IsZero() {
		v.certificate.WithLabelValues().Set(float64(told.CertificateEnds.Unix()))
	}
	stuck, holds := series{}, series{}
	for s, n := range told.Stuck {
		stuck.set(v.stuck, float64(n), s.Kind, s.Reason, s.Provider)
	}
	for c, holding := range told.Conditions {
		holds.set(v.condition, boolean(holding), c.Provider, c.Type)
	}
	stuck.replace(v.stuck, v.shownStuck)
	holds.replace(v.condition, v.shownHolds)
	v.shownStuck, v.shownHolds = stuck, holds
}

// series are the labels of one metric's series. The new ones are set before the
// old ones are deleted: a gap in a scrape would restart the time of an alert.
type series map[string][]string

func (s series) set(vec *metrics.GaugeVec, value float64, labels ...string) {
	vec.WithLabelValues(labels...).Set(value)
	s[strings.Join(labels, "/")] = labels
}

func (s series) replace(vec *metrics.GaugeVec, before series) {
	for key, labels := range before {
		if s[key] == nil {
			vec.DeleteLabelValues(labels...)
		}
	}
}
