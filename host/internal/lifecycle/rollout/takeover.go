package rollout

// Lead tells that this manager's control loops begin. Good is the generation
// that the previous leader kept, if known; refused are its refusals.
func (s *State) Lead(good Revision, refused []Refusal, m Modes) Action {
	s.Leading = true
	for _, r := range refused {
		s.refuse(r)
	}
	s.pardon(s.Serving) // there is nothing else: else that would serve
	if r := s.refusal(s.Candidate); r != nil {
		message := r.of(s.Candidate)
		s.settle()
		s.enter(r.Phase, r.Reason, message)
		s.adopt()
		return Drop
	}
	elsewhere := !s.Candidate.none() && s.Candidate == good // it was observed there
	s.Promoted = s.Promoted || elsewhere
	switch {
	case elsewhere && s.Ready:
		s.adopt()
		return Serve
	case !s.Candidate.none() && s.Ready:
		s.adopt()
		return s.ProbeDone("", m)
	case s.postponed(): // now it is this manager's turn
		s.adopt()
		return s.load()
	case s.lifted():
		s.adopt()
		return s.load()
	case s.Serving.none() || s.Serving == s.Good:
		return Nothing
	case s.Serving == good || s.Good.none() || m.Observe == Off:
		return Keep
	}
	return Observe
}

// lifted: what is offered was refused when it came, and is not any more.
func (s *State) lifted() bool {
	return s.Candidate.none() && !s.Offered.none() && (s.Phase == RolledBack || s.Phase == Held) && s.refusal(s.Offered) == nil
}

// adopt makes what serves the one to come back to, where there is none: a
// standby began with it while nothing was kept.
func (s *State) adopt() {
	if s.Good.none() {
		s.Good = s.Serving
	}
}

// Restored tells that the generation that was kept last, before a restart of
// the manager, serves.
func (s *State) Restored(revision Revision) {
	s.Serving, s.Good = revision, revision
	s.pardon(revision) // with it something serves
	if s.Previous == revision {
		s.Previous = Revision{}
	}
	s.settle()
}
