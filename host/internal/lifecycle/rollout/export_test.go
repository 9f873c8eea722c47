package rollout

import (
	"maps"
	"slices"
	"strings"

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

// String is where it stands, in short.
func (s *State) String() string {
	parts := []string{string(s.Phase)}
	for _, p := range [][2]string{{"reason", s.Reason}, {"offered", s.Offered.String()},
		{"candidate", s.Candidate.String()}, {"serving", s.Serving.String()}, {"good", s.Good.String()}, {"previous", s.Previous.String()}} {
		if p[1] != "" {
			parts = append(parts, p[0]+"="+p[1])
		}
	}
	return strings.Join(parts, " ")
}
