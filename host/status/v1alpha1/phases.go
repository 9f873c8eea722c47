package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Phases of a Provider, in their order, and those that lie off the way. deploy/docs/upgrade.md
// says what each means.
const (
	PhaseWaiting    = "Waiting"
	PhaseLoading    = "Loading"
	PhaseVerified   = "Verified"
	PhaseCompiled   = "Compiled"
	PhaseDescribed  = "Described"
	PhaseConfigured = "Configured"
	PhaseProbed     = "Probed"
	PhaseShadowed   = "Shadowed"
	PhaseServing    = "Serving"
	PhaseKept       = "Kept"

	PhaseRejected   = "Rejected"
	PhaseHeld       = "Held"
	PhaseRolledBack = "RolledBack"
)

// Types of a Provider's conditions.
const (
	// ConditionServing: a module serves.
	ConditionServing = "Serving"
	// ConditionProgressing: another one is on its way, or is observed.
	ConditionProgressing = "Progressing"
	// ConditionDurable: a restart would find what was kept.
	ConditionDurable = "Durable"
	// ConditionConfigured: the HostConfiguration is in force as it is written. It
	// is there where there is a file of --config.
	ConditionConfigured = "Configured"
	// ConditionSource: the registry can be asked. It is there where the source is
	// one.
	ConditionSource = "SourceAvailable"
	// ConditionTicked: the last op tick ended well. It is there where the provider
	// has the op, and it has ended.
	ConditionTicked = "Ticked"
)

// Refused reports that what is offered does not serve, and goes on only when a person, or
// another offer, lets it.
func (p *Provider) Refused() bool {
	return p.Phase == PhaseRejected || p.Phase == PhaseHeld || p.Phase == PhaseRolledBack
}

// ServesOffered reports that what is offered serves: the module with its configuration. The
// digests alone do not say it: private configurations have none, nor have other grants.
func (p *Provider) ServesOffered() bool {
	s, o, settled := p.Serving, p.Offered, p.Phase == PhaseServing || p.Phase == PhaseKept
	return settled && s != nil && o != nil && p.Candidate == nil && s.Digest == o.Digest && s.ConfigDigest == o.ConfigDigest
}

// Faults are the conditions that are False where they should be True, besides those
// of the phase: such as Configured, when a changed configuration is rejected.
func (p *Provider) Faults() (out []metav1.Condition) {
	for _, c := range p.Conditions {
		if c.Status == metav1.ConditionFalse && c.Type != ConditionServing && c.Type != ConditionProgressing {
			out = append(out, c)
		}
	}
	return out
}

// StuckObjects is the number of objects that are not as they should be; Stuck names the
// first of them.
func (p *Provider) StuckObjects() (n int) {
	for _, o := range []*Objects{p.Services, p.Nodes, p.Routes, p.Volumes} {
		if o != nil {
			n += o.Stuck
		}
	}
	return n
}
