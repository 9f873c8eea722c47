package rollout

import (
	"errors"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

// renewalRetry is the time between tries of a renewal that failed for a
// temporary reason, such as a cloud without an answer.
const renewalRetry = time.Minute

// renewal is in progress while the serving bundle is reloaded with the current terms, before
// any other offer. The offer may be refused, held or missing for weeks, but a changed
// password must reach the serving generation: the cloud may no longer accept the old one.
type renewal struct {
	// offer is the source's offer meanwhile; nil without a renewal.
	offer *offer
	// tried is the last tried revision.
	tried Revision
	// again fires for the next try; nil: never.
	again <-chan time.Time
}

// take is told the source's content.
func (r *Rollout) take(o offer) Action {
	if r.unknown(o.err) {
		return Nothing
	}
	// Before the first bundle an error says nothing about the source's content.
	bundles := o.err == nil || o.anew // it held one, at least for a moment
	o.anew = o.anew || r.held != "" && r.held != o.name() || r.seen && o.after
	if r.seen = r.seen || bundles; r.seen {
		r.held = o.name()
	}
	if o.err == nil {
		r.save() // also the next manager knows what is new
	}
	r.backoff.DeleteEntry(only)
	if r.renewal.offer != nil { // it is next
		o.anew = o.anew || r.renewal.offer.anew
		r.renewal.offer = &o
		return Nothing
	}
	r.current = o
	return r.offered()
}

// unknown reports whether an error leaves the source's content unknown, while a generation
// serves or is being loaded.
func (r *Rollout) unknown(err error) bool {
	return passing(err) && (!r.state.Serving.none() || !r.state.Candidate.none())
}

// renewed begins a due renewal, and continues with the source's offer once the serving
// generation has the current terms, or cannot have them.
func (r *Rollout) renewed() Action {
	switch {
	case r.busy():
		return Nothing
	case r.renewal.offer == nil:
		if !r.outdated() {
			return Nothing
		}
		return r.renew()
	}
	r.current, r.renewal.offer = *r.renewal.offer, nil
	if r.state.Serving == r.renewal.tried {
		r.renewal.tried = Revision{}
	}
	if r.retry != nil {
		r.renewal.again = r.options.Clock.After(renewalRetry)
	}
	return r.offered()
}

// renew reloads the serving bundle with the current terms, as if offered again.
func (r *Rollout) renew() Action {
	l, waiting := r.serving(), r.current
	r.renewal = renewal{offer: &waiting, tried: r.timely(l)}
	r.current = offer{bundle: l.bundle, at: r.options.Clock.Now(), version: l.version()}
	return r.offered()
}

// outdated: the serving generation has outdated terms, and the source's offer does not
// change that.
func (r *Rollout) outdated() bool {
	l := r.serving()
	if !r.state.Leading || l == nil || r.current.at.IsZero() || l.revision.Terms == r.options.Loader.Revision() {
		return false
	}
	return r.timely(l) != r.renewal.tried && (r.current.err != nil || r.current.bundle.Revision != l.revision.Bundle)
}

// busy: a candidate is being loaded, and waits for nothing.
func (r *Rollout) busy() bool {
	switch r.state.Phase {
	case Loading, Verified, Compiled, Described, Configured, Probed, Shadowed:
		return !r.state.Candidate.none() && r.retry == nil
	}
	return false
}

// timely is a generation's revision with the current terms.
func (r *Rollout) timely(l *loaded) Revision {
	now := l.revision
	now.Terms = r.options.Loader.Revision()
	return now
}

// passing: the error may disappear by itself.
func passing(err error) bool {
	var e *source.Error
	return errors.As(err, &e) && e.Passing
}
