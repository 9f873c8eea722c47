package rollout

import (
	"errors"
	"fmt"
)

// errStandby refuses commands on a manager that does not lead.
var errStandby = errors.New("this manager does not lead")

// Pause stops new generations from serving.
func (s *State) Pause() { s.Paused = true }

// Resume ends it.
func (s *State) Resume() Action {
	s.Paused = false
	if s.Phase == Held && s.Reason == ReasonPaused && s.Ready {
		return Serve
	}
	return Nothing
}

// Promote lets the offered generation serve, or keeps the observed one. The error says why
// neither is possible.
func (s *State) Promote() (Action, error) {
	switch {
	case !s.Leading:
		return Nothing, errStandby
	case s.suspected():
		return s.pardoned(), nil
	case s.Phase == Rejected && s.refusal(s.Offered) == nil:
		return Nothing, fmt.Errorf("the revision in the source is rejected (%s) and cannot be promoted: correct it", s.Reason)
	case !s.Candidate.none() && s.Ready:
		s.pardon(s.Candidate)
		s.Promoted = true
		return Serve, nil
	case !s.Candidate.none():
		s.Promoted = true // as soon as it is ready
		return Nothing, nil
	case s.refusal(s.Offered) != nil:
		// With another configuration the operator has not seen it: it is treated as any offer. A
		// generation already seen is promoted as it is.
		s.Promoted = s.refusal(s.Offered).Revision.Bundle == s.Offered.Bundle
		s.pardon(s.Offered)
		return s.load(), nil
	case !s.Offered.none() && s.Offered.Bundle != s.Serving.Bundle: // it was suspected, and another reason was reported since
		return s.pardoned(), nil
	case !s.Serving.none() && s.Serving != s.Good:
		return Keep, nil
	}
	return Nothing, fmt.Errorf("no revision to promote: none is held, rolled back or observed")
}

// pardoned has the offer tried as any other, whatever Trials has recorded.
func (s *State) pardoned() Action {
	s.Pardoned = true
	s.pardon(s.Offered) // another leader may have refused it, too
	return s.load()
}

// Promotable reports whether a promotion of the offer is possible.
func (s *State) Promotable() bool {
	return s.Leading && !s.Offered.none() && s.Offered != s.Serving && (s.suspected() || s.refusal(s.Offered) != nil)
}

// Rollback lets the previous generation serve again, on behalf of by ("" if unknown).
func (s *State) Rollback(by string) (Action, error) {
	switch {
	case !s.Leading:
		return Nothing, errStandby
	case s.Serving.none():
		return Nothing, fmt.Errorf("no generation serves, so none can be rolled back")
	case s.Good.none() || s.Serving == s.Good && s.Previous.none():
		return Nothing, fmt.Errorf("there is no earlier generation to go back to: offer the earlier module")
	case s.Serving == s.Good:
		s.Good, s.Previous = s.Previous, Revision{}
	}
	if by == "" {
		by = "a person"
	}
	ends := "another offer ends that"
	if s.takesModuleBack() {
		ends = "another module ends that"
	}
	return s.back(ReasonByOperator, by+" asked for it; "+ends), nil
}
