package rollout

import (
	"errors"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

// renewalRetry is the time between tries of a renewal that failed for a
// temporary reason, such as a cloud without an answer.
const renewalRetry = time.Minute

// renewal is under way while what serves gets the terms of now, before anything
// else that the source offers. The offer may be refused, held or missing for
// weeks, and a password that was changed must reach what serves: the cloud may
// accept the previous one no more.
type renewal struct {
	// offer is what the source holds meanwhile; nil when there is no renewal.
	offer *offer
	// tried is what was tried last.
	tried Revision
	// again is when it is tried once more; nil: not at all.
	again <-chan time.Time
}

// take is told what the source holds now.
func (r *Rollout) take(o offer) Action {
	if r.unknown(o.err) {
		return Nothing
	}
	// Before the first bundle nobody knows what the source held: an error says nothing of it.
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

// unknown reports whether an error says nothing about what the source holds,
// while there is something that serves or is on its way.
func (r *Rollout) unknown(err error) bool {
	return passing(err) && (!r.state.Serving.none() || !r.state.Candidate.none())
}

// renewed begins a renewal that is due, and goes on with the source's offer when
// what serves has the terms of now, or cannot have them.
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

// renew has what serves loaded with the terms of now, as if the source offered
// it again.
func (r *Rollout) renew() Action {
	l, waiting := r.serving(), r.current
	r.renewal = renewal{offer: &waiting, tried: r.timely(l)}
	r.current = offer{bundle: l.bundle, at: r.options.Clock.Now(), version: l.version()}
	return r.offered()
}

// outdated: what serves was loaded with other terms than those of now, and
// what the source holds does not change that.
func (r *Rollout) outdated() bool {
	l := r.serving()
	if !r.state.Leading || l == nil || r.current.at.IsZero() || l.revision.Terms == r.options.Loader.Revision() {
		return false
	}
	return r.timely(l) != r.renewal.tried && (r.current.err != nil || r.current.bundle.Revision != l.revision.Bundle)
}

// busy: a candidate is on its way, and waits for nothing.
func (r *Rollout) busy() bool {
	switch r.state.Phase {
	case Loading, Verified, Compiled, Described, Configured, Probed, Shadowed:
		return !r.state.Candidate.none() && r.retry == nil
	}
	return false
}

// timely is a generation as it would be with the terms of now.
func (r *Rollout) timely(l *loaded) Revision {
	now := l.revision
	now.Terms = r.options.Loader.Revision()
	return now
}

// passing: the error will pass by itself.
func passing(err error) bool {
	var e *source.Error
	return errors.As(err, &e) && e.Passing
}
