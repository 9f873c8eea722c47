package rollout

import (
	"maps"
	"slices"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// Exceeded is Budget.exceeded for tests.
func Exceeded(b Budget, now, before plugin.Tally) bool { return b.exceeded(now, before) }

// WithoutCollection leaves the garbage collections out, for tests with many.
func (r *Rollout) WithoutCollection() { r.collectGarbage = func() {} }

// Look has look called with where the rollout stands, and what is loaded, each
// time that it has done something. It is set before Run.
func (r *Rollout) Look(look func(State, []Revision)) {
	r.looked = func() {
		s := r.state
		s.Refused = slices.Clone(s.Refused)
		s.Known = slices.Clone(r.history).knows
		look(s, slices.Collect(maps.Keys(r.loads)))
	}
}

// Refusal is State.refusal for tests.
func (s *State) Refusal(r Revision) *Refusal { return s.refusal(r) }
