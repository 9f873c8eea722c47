package rollout

import (
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Report is the state of a rollout after a change.
type Report struct {
	Phase           Phase
	Reason, Message string
	// Err is why a phase failed, or nil. If Phase is not Rejected, the failure was allowed.
	Err error
	// Allowed: the rehearsal found an allowed difference.
	Allowed bool
	// Promotable: an operator may promote the offer.
	Promotable bool
	// Bundle is the subject of the phase, Subject its generation, nil before it is loaded. Both
	// are valid only during the call.
	Bundle  source.Bundle
	Subject *plugin.Generation
	// Offered is the source's revision, without name and version, which only a loaded module
	// tells; nil for an empty source.
	Offered *v1alpha1.Module
	// Serving, Candidate and Good may be nil.
	Serving, Candidate, Good *v1alpha1.Module
	// Generation counts the takeovers.
	Generation int64
	Paused     bool
	// Took is the time since the source offered the bundle.
	Took time.Duration
	// Since is when the serving generation became Serving or Kept, also in an earlier manager;
	// zero in other phases.
	Since time.Time
}

// Reporter hears of every change. Its methods must not block.
type Reporter interface {
	Report(Report)
	// Commanded is told of each command, with an error if it was refused.
	Commanded(c Command, err error)
	// Journalled is told of each write of the journal: an error means that a restart would not
	// find the serving generation.
	Journalled(err error)
}

func (r *Rollout) report(bundle source.Bundle, l *loaded) { r.tell(bundle, l, nil) }

func (r *Rollout) reportError(bundle source.Bundle, err error) { r.tell(bundle, nil, err) }

// reportOffer reports an offer that needs no action.
func (r *Rollout) reportOffer() {
	var subject *loaded
	if r.state.Offered == r.state.Serving {
		subject = r.serving()
	}
	r.report(r.current.bundle, subject)
}

func (r *Rollout) tell(bundle source.Bundle, l *loaded, err error) {
	// It is still waiting while it asks again.
	r.waits.Store(r.state.postponed() || r.waits.Load() && r.state.Phase == Loading)
	out := Report{
		Phase: r.state.Phase, Reason: r.state.Reason, Message: r.state.Message, Err: err, Bundle: bundle,
		Offered: r.current.version, Serving: r.serving().version(), Candidate: r.candidate().version(), Good: r.good().version(),
		Generation: r.generation, Paused: r.state.Paused, Allowed: r.state.Phase == Shadowed && r.allowed, Promotable: r.state.Promotable(),
	}
	if l != nil {
		out.Subject = l.Generation
	}
	if !r.current.at.IsZero() {
		out.Took = r.options.Clock.Since(r.current.at)
	}
	if now := r.history.now(); now != nil {
		out.Since = now.since(r.state.Phase)
	}
	r.options.Reporter.Report(out)
}
