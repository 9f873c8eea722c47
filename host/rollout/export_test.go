package rollout

import "github.com/wasm-ccm/wasm-ccm/host/plugin"

// Exceeded is Budget.exceeded for tests.
func Exceeded(b Budget, now, before plugin.Tally) bool { return b.exceeded(now, before) }

// WithoutCollection leaves the garbage collections out, for tests with many.
func (r *Rollout) WithoutCollection() { r.collectGarbage = func() {} }

// State is where the rollout stands. It must be at rest.
func (r *Rollout) State() State {
	s := r.state
	s.Refused = append([]Refusal(nil), s.Refused...)
	return s
}

// Loaded are the revisions that are loaded. The rollout must be at rest.
func (r *Rollout) Loaded() (all []Revision) {
	for revision := range r.loads {
		all = append(all, revision)
	}
	return all
}

// Refusal is State.refusal for tests.
func (s *State) Refusal(r Revision) *Refusal { return s.refusal(r) }
