package rollout

import (
	"fmt"
	"slices"
)

// Scope says which part of a revision a refusal is about, as far as known.
type Scope string

// The scopes.
const (
	// ScopeRevision is this very generation: on other terms it is another one.
	ScopeRevision Scope = ""
	// ScopeBundle is the module with this configuration, whatever the terms.
	ScopeBundle Scope = "Bundle"
	// ScopeModule is the module, whatever its configuration.
	ScopeModule Scope = "Module"
	// ScopeEngine is the module on this engine, whatever its configuration.
	ScopeEngine Scope = "Engine"
)

// Refusal is of what must not serve, and why.
type Refusal struct {
	// Revision is the one that was refused.
	Revision        Revision
	Scope           Scope
	Phase           Phase
	Reason, Message string
	// Stands: it holds only as long as the source holds this bundle. Others hold
	// until a person promotes what they cover.
	Stands bool
}

// covers tells whether a generation is refused by it.
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

// keepsOut tells whether it refuses a generation, which is known when it was kept
// once.
func (f Refusal) keepsOut(r Revision, known bool) bool {
	return f.covers(r) && (!known || f.Stands || f.Scope == ScopeRevision)
}

// of is the message for a generation that the refusal covers; it may differ
// from the refused one.
func (f Refusal) of(r Revision) string {
	if f.Revision.Bundle == r.Bundle {
		return f.Message
	}
	return fmt.Sprintf("with another configuration this module was refused, and another one does not bring it back by itself: %s", f.Message)
}

// blame is the scope of a refusal of what serves, against what serves instead:
// wrong is what is not the same in both.
func (s *State) blame(instead Revision) Scope {
	// Invariant R6 (host/SECURITY.md): a module that went back is not brought back by an edit of its
	// configuration, nor by a Secret that is rotated.
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

// renews: the candidate is what serves, on other terms and the same engine.
func (s *State) renews() bool {
	return s.Candidate.Bundle == s.Serving.Bundle && s.Candidate.Engine() == s.Serving.Engine()
}

// intended: the candidate is the module that serves. What somebody configured
// otherwise may answer otherwise.
func (s *State) intended() bool {
	return s.Candidate.Module == s.Serving.Module && s.Candidate.Engine() == s.Serving.Engine()
}

// maxRefused bounds the list of refusals; the oldest are forgotten.
const maxRefused = 32

func (s *State) refuse(r Refusal) {
	s.Refused = slices.DeleteFunc(s.Refused, func(x Refusal) bool {
		// What is held is compared anew on each terms. With a Secret that is
		// rotated every hour it would crowd out what went back.
		held := x.Phase == Held && r.Phase == Held && x.Revision.Bundle == r.Revision.Bundle
		return x.Scope == r.Scope && (held || x.covers(r.Revision))
	})
	s.Refused = append(s.Refused, r)
	if over := len(s.Refused) - maxRefused; over > 0 {
		s.Refused = slices.Delete(s.Refused, 0, over)
	}
}

// pardon forgets all that keeps a generation out. What does not, since the
// generation was kept once, is about others, and stays.
func (s *State) pardon(r Revision) {
	known := s.known(r)
	s.Refused = slices.DeleteFunc(s.Refused, func(x Refusal) bool { return x.keepsOut(r, known) })
}

// anew forgets the refusals that hold only while their offer stands, when the
// source holds another one, or the same one again.
func (s *State) anew(revision Revision, again bool) {
	if again && s.known(revision) {
		s.pardon(revision)
	}
	s.Refused = slices.DeleteFunc(s.Refused, func(x Refusal) bool { return x.Stands && (again || x.Revision.Bundle != revision.Bundle) })
}

// refusal returns the newest that covers a generation, nil when there is none.
// What was kept once is refused only while its offer stands.
func (s *State) refusal(r Revision) *Refusal {
	if r.none() {
		return nil
	}
	known := s.known(r)
	for i := len(s.Refused) - 1; i >= 0; i-- {
		if s.Refused[i].keepsOut(r, known) {
			return &s.Refused[i]
		}
	}
	return nil
}

// Postponed tells that the candidate waits for another manager, and has not
// run.
func (s *State) Postponed(message string) Action {
	s.Ready = false
	s.enter(Waiting, ReasonStandby, message)
	return Retry
}

// Suspected tells that a manager ended while it ran the offered revision, and
// that the revision was not run now. With again the revision stays the
// candidate, and is tried after that time.
func (s *State) Suspected(message string, again bool) Action {
	suspect := s.Candidate
	s.settle()
	s.Suspect = suspect
	s.enter(Rejected, ReasonModuleSuspected, message)
	if !again {
		return Drop
	}
	s.Candidate = suspect
	return Retry
}

// postponed: the candidate waits for another manager.
func (s *State) postponed() bool { return !s.Candidate.none() && !s.Ready && s.Phase == Waiting }
