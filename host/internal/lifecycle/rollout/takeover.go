package rollout

// Lead tells that this manager's control loops begin, with the previous leader's generation.
func (s *State) Lead(m Modes) Action {
	s.Leading = true
	s.pardon(s.Serving) // there is nothing else to serve
	s.pardon(s.Good)
	if r := s.refusal(s.Candidate); r != nil {
		message := r.of(s.Candidate)
		s.settle()
		s.enter(r.Phase, r.Reason, message)
		return Drop
	}
	switch {
	case !s.Candidate.none() && s.Ready:
		return s.ProbeDone("", m)
	case s.postponed(), s.lifted(): // now it is this manager's turn
		return s.load()
	}
	return Nothing
}

// lifted: the offer was refused when it came, and no longer is.
func (s *State) lifted() bool {
	return s.Candidate.none() && !s.Offered.none() && (s.Phase == RolledBack || s.Phase == Held || s.Phase == Rejected && s.Reason == ReasonRehearsalFailed) &&
		s.refusal(s.Offered) == nil
}

// Resumed tells that the generation from before the restart, or of the previous leader,
// serves. Good is the last kept one, if any.
func (s *State) Resumed(serving, good Revision) {
	s.Serving, s.Good = serving, good
	s.pardon(serving) // it is needed to serve anything
	s.pardon(good)
	if s.Previous == serving || s.Previous == good {
		s.Previous = Revision{}
	}
	s.settle()
}
