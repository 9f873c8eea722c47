package rollout

import (
	"fmt"
	"slices"
)

// Scope is the part of a revision that a refusal concerns.
type Scope string

// The scopes.
const (
	// ScopeRevision is this generation only, with these terms.
	ScopeRevision Scope = ""
	// ScopeBundle is the module with this configuration, on any terms.
	ScopeBundle Scope = "Bundle"
	// ScopeModule is the module with any configuration.
	ScopeModule Scope = "Module"
	// ScopeEngine is the module on this engine, with any configuration.
	ScopeEngine Scope = "Engine"
)

// Refusal records a generation that must not serve, and why.
type Refusal struct {
	// Revision is the one that was refused.
	Revision Revision `json:"-"`
	Scope    Scope    `json:"scope,omitempty"`
	Phase    Phase    `json:"phase,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Message  string   `json:"message,omitempty"`
	// Stands: the refusal ends when the source holds what it does not cover. Other refusals end
	// when an operator promotes what they cover.
	Stands bool `json:"stands,omitempty"`
}

// covers reports whether the refusal applies to a generation.
func (f Refusal) covers(r Revision) bool {
	switch f.Scope {
	case ScopeModule:
		return r.Module != "" && r.Module == f.Revision.Module
	case ScopeBundle:
		return r.Bundle == f.Revision.Bundle
	case ScopeEngine:
		return r.Module != "" && r.Module == f.Revision.Module && r.Engine() == f.Revision.Engine()
	}
	return r.Bundle == f.Revision.Bundle && r.Terms == f.Revision.Terms
}

// keepsOut reports whether the refusal applies now: to a generation kept before only while
// its offer stands, or on these terms.
func (s *State) keepsOut(f Refusal, r Revision) bool {
	return f.covers(r) && (f.Stands || f.Scope == ScopeRevision || !s.known(r))
}

// of is the message for a generation that the refusal covers; it may not be the refused one
// itself.
func (f Refusal) of(r Revision) string {
	if f.Revision.Bundle == r.Bundle {
		return f.Message
	}
	return fmt.Sprintf("this module was refused with another configuration, and a changed one does not bring it back by itself: %s", f.Message)
}

// blame is the scope of a refusal of the serving generation in favour of another: the part
// that differs is at fault.
func (s *State) blame(instead Revision) Scope {
	// Invariant R6 (host/SECURITY.md): neither an edit of the configuration nor a rotated Secret
	// brings back a module that was rolled back.
	switch {
	case s.Serving.Module != instead.Module:
		return ScopeModule
	case s.Serving.Engine() != instead.Engine():
		return ScopeEngine
	case s.Serving.Bundle != instead.Bundle:
		return ScopeBundle
	}
	return ScopeRevision
}

// renews: the candidate is the serving bundle on other terms and the same engine.
func (s *State) renews() bool {
	return s.Candidate.Bundle == s.Serving.Bundle && s.Candidate.Engine() == s.Serving.Engine()
}

// intended: the candidate is the serving module. With another configuration different
// answers are intended.
func (s *State) intended() bool {
	return s.Candidate.Module == s.Serving.Module && s.Candidate.Engine() == s.Serving.Engine()
}

// MaxRefused bounds the list of refusals; the oldest are forgotten.
const MaxRefused = 32

func (s *State) refuse(r Refusal) {
	s.Refused = slices.DeleteFunc(s.Refused, func(x Refusal) bool {
		// Held generations are compared again on new terms. With a Secret rotated every hour they
		// would crowd out rollbacks.
		held := x.Phase == Held && r.Phase == Held && x.Revision.Bundle == r.Revision.Bundle
		return x.Scope == r.Scope && x.Stands == r.Stands && (held || x.covers(r.Revision))
	})
	s.Refused = append(s.Refused, r)
	s.Refused = s.Refused[max(0, len(s.Refused)-MaxRefused):]
}

// pardon removes all refusals that apply to a generation. Refusals that do not apply, since
// the generation was kept before, concern others, and stay.
func (s *State) pardon(r Revision) {
	s.Refused = slices.DeleteFunc(s.Refused, func(x Refusal) bool { return s.keepsOut(x, r) })
}

// anew removes the refusals that an offer ends: those bound to what the source held before,
// and those of what was kept once and is offered again. A changed configuration is no offer
// of the module, not even one that was changed back while no manager looked.
func (s *State) anew(revision Revision, again bool) {
	meant := again && (s.emptied || s.Offered.Bundle == revision.Bundle)
	s.Refused = slices.DeleteFunc(s.Refused, func(x Refusal) bool {
		switch {
		case x.Stands && x.Scope == ScopeModule:
			return !x.covers(revision) || meant && x.Revision.Bundle == revision.Bundle
		case x.Stands:
			return again || !x.covers(revision)
		}
		return again && s.known(revision) && s.keepsOut(x, revision)
	})
}

// refusal returns the newest refusal that applies to a generation, or nil.
func (s *State) refusal(r Revision) *Refusal {
	for _, x := range slices.Backward(s.Refused) {
		if !r.none() && s.keepsOut(x, r) {
			return &x
		}
	}
	return nil
}

// Postponed tells that the candidate waits for another manager, and has not run.
func (s *State) Postponed(message string) Action {
	s.Ready = false
	s.enter(Waiting, ReasonStandby, message)
	return Retry
}

// suspected: a manager ended while it ran the offer, and Trials blocks it.
func (s *State) suspected() bool { return s.Phase == Rejected && s.Reason == ReasonModuleSuspected }

// postponed: the candidate waits for another manager.
func (s *State) postponed() bool { return !s.Candidate.none() && !s.Ready && s.Phase == Waiting }
