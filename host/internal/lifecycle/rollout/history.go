package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// MaxHistory bounds the generations that are remembered.
const MaxHistory = 32

// Served is a generation that served, or serves. The same bundle on other terms
// goes on as the same one.
type Served struct {
	Version
	// Generation is the number of its last takeover.
	Generation int64
	// Offered is when the source offered it. Until is zero while it serves, Kept
	// while it was not.
	Offered, From, Until, Kept time.Time
	// Calls and Failures are of control loops, Questions of the manager itself.
	Calls, Failures, Questions int
	// Why it ended, and who asked for that.
	Why, By string
}

// same: it is the bundle, on the engine.
func (s Served) same(r Revision) bool {
	return s.Digest == r.Module && s.Revision == r.Bundle && cmp.Or(s.Engine, r.Engine()) == r.Engine()
}

// proof says how it was proven.
func (s Served) proof() string {
	return fmt.Sprintf("%d calls, %d failed, %d questions of the host's own", s.Calls, s.Failures, s.Questions)
}

// since is when a phase of what serves began, zero of other phases.
func (s Served) since(p Phase) time.Time {
	switch {
	case p == Serving || p == Kept && s.From.After(s.Kept):
		return s.From
	case p == Kept:
		return s.Kept
	}
	return time.Time{}
}

// history are the generations that served, the newest first.
type history []Served

// keptAt is when a bundle was kept for the first time that is remembered.
func (h history) keptAt(r Revision) (at time.Time) {
	for _, s := range h {
		if s.same(r) && !s.Kept.IsZero() {
			at = s.Kept
		}
	}
	return at
}

// offeredAt is when the source offered a bundle that has served, at otherwise
// where that is not remembered.
func (h history) offeredAt(r Revision, otherwise time.Time) time.Time {
	for _, s := range h {
		if s.same(r) {
			return s.Offered
		}
	}
	return otherwise
}

func (h history) knows(r Revision) bool { return !h.keptAt(r).IsZero() }

// now is what serves, nil when nothing does.
func (h history) now() *Served {
	if len(h) == 0 || !h[0].Until.IsZero() {
		return nil
	}
	return &h[0]
}

// begin adds what serves from now on.
func (h *history) begin(s Served, r Revision) {
	if now := h.now(); now != nil && now.same(r) {
		now.Generation = s.Generation
		return
	}
	h.end(s.From, "Replaced", "")
	*h = slices.Insert(*h, 0, s)
	*h = (*h)[:min(len(*h), MaxHistory)]
}

// end says why what serves does so no more.
func (h *history) end(at time.Time, why, by string) {
	if now := h.now(); now != nil {
		now.Until, now.Why, now.By = at, why, by
	}
}
