package rollout

// Lead tells that this manager's control loops begin, with what the leader
// before has let serve.
func (s *State) Lead(m Modes) Action {
	s.Leading = true
	s.pardon(s.Serving) // there is nothing else: else that would serve
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

// lifted: what is offered was refused when it came, and is not any more.
func (s *State) lifted() bool {
	return s.Candidate.none() && !s.Offered.none() && (s.Phase == RolledBack || s.Phase == Held || s.Phase == Rejected && s.Reason == ReasonRehearsalFailed) &&
		s.refusal(s.Offered) == nil
}

// Resumed tells that what served before a restart of the manager, or in the
// manager that led before, serves. Good is what was kept last, if anything was.
func (s *State) Resumed(serving, good Revision) {
	s.Serving, s.Good = serving, good
	s.pardon(serving) // with it something serves
	s.pardon(good)
	if s.Previous == serving || s.Previous == good {
		s.Previous = Revision{}
	}
	s.settle()
}
