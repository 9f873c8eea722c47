package rollout

import (
	"errors"
	"fmt"
)

// errStandby refuses the commands of persons.
var errStandby = errors.New("this manager does not lead")

// Pause is a person's wish that nothing new serves.
func (s *State) Pause() { s.Paused = true }

// Resume ends it.
func (s *State) Resume() Action {
	s.Paused = false
	if s.Phase == Held && s.Reason == ReasonPaused && s.Ready {
		return Serve
	}
	return Nothing
}

// Promote is a person's wish that what the source offers serves, or that what
// is being observed is kept. The error says why it cannot be.
func (s *State) Promote() (Action, error) {
	switch {
	case !s.Leading:
		return Nothing, errStandby
	case !s.Offered.none() && s.Offered == s.Suspect:
		s.Suspect, s.Pardoned = Revision{}, true // from here on it is as any offer
		s.pardon(s.Offered)                      // another leader may have refused it, too
		return s.load(), nil
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
		// With another configuration nobody has seen it: it goes the way of all
		// offers. What was seen is wanted as it is.
		s.Promoted = s.refusal(s.Offered).Revision.Bundle == s.Offered.Bundle
		s.pardon(s.Offered)
		return s.load(), nil
	case !s.Serving.none() && s.Serving != s.Good:
		return Keep, nil
	}
	return Nothing, fmt.Errorf("no revision to promote: none is held, rolled back or observed")
}

// Promotable reports whether a person may let through what the source offers.
func (s *State) Promotable() bool {
	return s.Leading && !s.Offered.none() && s.Offered != s.Serving && (s.Offered == s.Suspect || s.refusal(s.Offered) != nil)
}

// Rollback is the wish of somebody, "" for nobody knows whom, that the generation before serves again.
func (s *State) Rollback(by string) (Action, error) {
	switch {
	case !s.Leading:
		return Nothing, errStandby
	case s.Serving.none():
		return Nothing, fmt.Errorf("no generation serves, so none can be rolled back")
	case s.Good.none() || s.Serving == s.Good && s.Previous.none():
		return Nothing, fmt.Errorf("there is nothing to go back to: nothing was kept before what serves. Offer the module of before")
	case s.Serving == s.Good:
		s.Good, s.Previous = s.Previous, Revision{}
	}
	if by == "" {
		by = "a person"
	}
	return s.back(ReasonByOperator, by+" asked for it; another offer ends that"), nil
}
