package rollout

import "slices"

// Refusal is a revision that must not serve, and why.
type Refusal struct {
	Revision        string
	Phase           Phase
	Reason, Message string
}

// maxRefused bounds the list of refusals; the oldest are forgotten.
const maxRefused = 32

func (s *State) refuse(r Refusal) {
	s.pardon(r.Revision)
	s.Refused = append(s.Refused, r)
	if over := len(s.Refused) - maxRefused; over > 0 {
		s.Refused = slices.Delete(s.Refused, 0, over)
	}
}

func (s *State) pardon(revision string) {
	s.Refused = slices.DeleteFunc(s.Refused, func(r Refusal) bool { return r.Revision == revision })
}

func (s *State) refusal(revision string) int {
	return slices.IndexFunc(s.Refused, func(r Refusal) bool { return r.Revision == revision })
}

// Postponed tells that the candidate has to wait for another manager, and that
// nothing of it was run.
func (s *State) Postponed(message string) Action {
	s.Ready = false
	s.enter(Waiting, ReasonStandby, message)
	return Retry
}

// Suspected tells that a manager ended while it ran what is offered, and that
// nothing of it was run now. With again it stays the candidate, and is tried
// when a time is over.
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
func (s *State) postponed() bool { return s.Candidate != "" && !s.Ready && s.Phase == Waiting }
