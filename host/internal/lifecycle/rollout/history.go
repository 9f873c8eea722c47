package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// MaxHistory bounds the history.
const MaxHistory = 32

// Served is a generation that serves or served. The same bundle on other terms continues its
// entry.
type Served struct {
	// Module has the revision of the bundle.
	v1alpha1.Module
	// Generation is the number of its last takeover.
	Generation int64 `json:"generation"`
	// Offered is the time of the source's offer.
	Offered time.Time `json:"offered,omitzero"`
	From    time.Time `json:"from"`
	// Until is zero while it serves, Kept until it is kept.
	Until time.Time `json:"until,omitzero"`
	Kept  time.Time `json:"kept,omitzero"`
	// Calls and Failures count control loops' calls, Questions the manager's own.
	Calls     int `json:"calls,omitempty"`
	Failures  int `json:"failures,omitempty"`
	Questions int `json:"questions,omitempty"`
	// Why says why it ended: Replaced, or a phase's reason and message. By is who asked for
	// it, "" for nobody.
	Why string `json:"why,omitempty"`
	By  string `json:"by,omitempty"`
}

// same: equal bundle and engine.
func (s Served) same(r Revision) bool {
	return s.Digest == r.Module && s.Revision == r.Bundle && cmp.Or(s.Engine, r.Engine()) == r.Engine()
}

// proof tells people how it was proven.
func (s Served) proof() string {
	return fmt.Sprintf("%d calls, %d failed, %d questions of the host's own", s.Calls, s.Failures, s.Questions)
}

// since is when the phase of the serving generation began, zero for other phases.
func (s Served) since(p Phase) time.Time {
	switch {
	case p == Serving || p == Kept && s.From.After(s.Kept):
		return s.From
	case p == Kept:
		return s.Kept
	}
	return time.Time{}
}

// history lists the generations that served, the newest first.
type history []Served

// keptAt is when a bundle was first kept, within the history.
func (h history) keptAt(r Revision) (at time.Time) {
	for _, s := range h {
		if s.same(r) && !s.Kept.IsZero() {
			at = s.Kept
		}
	}
	return at
}

// offeredAt is when the source offered a bundle that has served, else otherwise.
func (h history) offeredAt(r Revision, otherwise time.Time) time.Time {
	for _, s := range h {
		if s.same(r) {
			return s.Offered
		}
	}
	return otherwise
}

func (h history) knows(r Revision) bool { return !h.keptAt(r).IsZero() }

// now is the serving generation's entry, or nil.
func (h history) now() *Served {
	if len(h) == 0 || !h[0].Until.IsZero() {
		return nil
	}
	return &h[0]
}

// begin adds the new serving generation.
func (h *history) begin(s Served, r Revision) {
	if now := h.now(); now != nil && now.same(r) {
		now.Generation = s.Generation
		return
	}
	h.end(s.From, "Replaced", "")
	*h = slices.Insert(*h, 0, s)
	*h = (*h)[:min(len(*h), MaxHistory)]
}

// end closes the entry of the serving generation.
func (h *history) end(at time.Time, why, by string) {
	if now := h.now(); now != nil {
		now.Until, now.Why, now.By = at, why, by
	}
}
