package controllers

// LoopState is the state of a provider's control loop.
type LoopState struct {
	// Name as in --controllers.
	Name    string
	Running bool
	// Reason is why it does not run; "" while unknown.
	Reason string
	// Off says that it is not to run.
	Off bool
}

// States returns the states of a provider's loops that upstream has started, in their usual
// order; none for an unknown provider.
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
	return LoopState{Name: s.loop.name, Reason: s.said, Off: s.said == routesOff || s.said == noRoutes}
}
