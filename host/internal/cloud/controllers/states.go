package controllers

// LoopState says whether a control loop of a provider runs.
type LoopState struct {
	// Name is that of --controllers.
	Name    string
	Running bool
	// Reason is why it does not run; "" where that is not known yet.
	Reason string
}

// States returns those of the loops of a provider that upstream has started, in
// their usual order; none of a provider that there is not.
func (l *Loops) States(provider string) (all []LoopState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, kind := range loops() {
		for _, m := range l.members {
			if s := m.supervisors[kind.name]; s != nil && m.provider.Name == provider {
				all = append(all, s.state())
			}
		}
	}
	return all
}

func (s *supervisor) state() LoopState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		return LoopState{Name: s.loop.name, Running: true}
	}
	return LoopState{Name: s.loop.name, Reason: s.said}
}
