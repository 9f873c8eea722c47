package rollout

import (
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// Version describes a generation.
type Version struct {
	// Name and Version are the guest's own.
	Name, Version string
	// Digest and ConfigDigest are lowercase hex SHA-256; of a private
	// configuration there is none.
	Digest, ConfigDigest string
	// Revision is that of the generation, in a Record that of the bundle.
	Revision string
	// Image is the digest of the image that the module was in, sha256:HEX, "" of none.
	Image string
	// Engine is the name of the engine that runs it. Records of before there was
	// a choice have none.
	Engine string
}

// Report is where a rollout stands after something has changed.
type Report struct {
	Phase           Phase
	Reason, Message string
	// Err is why a phase failed, or nil. Where Phase is not Rejected, the
	// failure was allowed.
	Err error
	// Allowed says that a rehearsal found what is allowed all the same.
	Allowed bool
	// Promotable: a person may let what is offered serve.
	Promotable bool
	// Bundle is what the phase is about, Subject its generation, nil before it
	// is loaded. Both are the receiver's only during the call.
	Bundle  source.Bundle
	Subject *plugin.Generation
	// Offered is the revision in the source, without name and version, which
	// only a loaded module tells; nil when the source is empty.
	Offered *Version
	// Serving, Candidate and Good may be nil.
	Serving, Candidate, Good *Version
	// Generation counts the swaps.
	Generation int64
	Paused     bool
	// Took is the time since the source offered the bundle.
	Took time.Duration
	// Since is when what serves began to be Serving or Kept, also in a manager before
	// this one; zero in other phases.
	Since time.Time
}

// Reporter hears of everything. Its methods do not block.
type Reporter interface {
	Report(Report)
	// Commanded is told of each command, with an error when it was not obeyed.
	Commanded(c Command, err error)
	// Journalled is told of each write of the journal: an error when a restart
	// would not find what serves now.
	Journalled(err error)
}

func (r *Rollout) report(bundle source.Bundle, l *loaded) { r.tell(bundle, l, nil) }

func (r *Rollout) reportError(bundle source.Bundle, err error) { r.tell(bundle, nil, err) }

// reportOffer tells what becomes of an offer for which there is nothing to do.
func (r *Rollout) reportOffer() {
	var subject *loaded
	if r.state.Offered == r.state.Serving {
		subject = r.serving()
	}
	r.report(r.current.bundle, subject)
}

func (r *Rollout) tell(bundle source.Bundle, l *loaded, err error) {
	// It goes on waiting while it asks again.
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
