package rollout

import (
	"cmp"
	"strings"
)

// Phase is how far the rollout of a provider has come.
type Phase string

// The phases, in their order, and those that lie off the way.
const (
	Waiting    Phase = "Waiting" // for something to roll out
	Loading    Phase = "Loading"
	Verified   Phase = "Verified"
	Compiled   Phase = "Compiled"
	Described  Phase = "Described"
	Configured Phase = "Configured"
	Probed     Phase = "Probed"
	Shadowed   Phase = "Shadowed"
	Serving    Phase = "Serving" // and being observed
	Kept       Phase = "Kept"

	Rejected   Phase = "Rejected"   // not fit to serve
	Held       Phase = "Held"       // fit, but not let through
	RolledBack Phase = "RolledBack" // it served, and does no more
)

// Mode says what becomes of a rollout when a phase fails.
type Mode string

// The modes of a phase.
const (
	Required Mode = "Required" // a failure ends the rollout
	Allowed  Mode = "Allowed"  // a failure is reported
	Off      Mode = "Off"      // the phase is left out
)

// Reasons that this package gives, in the CamelCase of Events.
const (
	ReasonStandby       = "Standby"
	ReasonPaused        = "Paused"
	ReasonShadowDiffers = "ShadowDiffers"
	ReasonErrorBudget   = "ErrorBudgetExceeded"
	ReasonByOperator    = "ByOperator"
	// ReasonRehearsalFailed: it failed before it served, ReasonExaminationFailed: while
	// it was observed, each time at a question of the manager's own.
	ReasonRehearsalFailed   = "RehearsalFailed"
	ReasonExaminationFailed = "ExaminationFailed"
	// ReasonUnproven: nothing is known of it yet.
	ReasonUnproven = "Unproven"
	// ReasonModuleSuspected: a manager ended while it ran this.
	ReasonModuleSuspected = "ModuleSuspected"
)

// Modes are those of the phases that can be left out.
type Modes struct{ Probe, Shadow, Observe Mode }

// Action is what the state machine wants done.
type Action int

// The actions. Each ends in a call of the method that stands behind it.
const (
	Nothing  Action = iota
	Load            // Reached, and Loaded or Failed
	Probe           // ProbeDone
	Shadow          // Rehearsed
	Serve           // Served
	Observe         // OverBudget or PeriodOver
	Examine         // Examined
	Keep            // KeepDone
	RollBack        // nothing follows: let Good serve
	Drop            // nothing follows: give up the candidate, if there is one
	Retry           // Load, after a while
)

// State is the state of the rollout of one provider. It has no effects: each
// method takes an event and returns the next step. A new manager begins with
// the zero State and Phase Waiting.
type State struct {
	Phase           Phase
	Reason, Message string
	// Offered is what the source holds; Candidate is what is on its way to
	// serve, if anything is.
	Offered, Candidate Revision
	// Ready: the candidate is loaded and probed.
	Ready bool
	// Promoted: a person has let the candidate through.
	Promoted bool
	// Serving serves; Good was kept last; Previous was kept before it.
	Serving, Good, Previous Revision
	// Paused: a person wants nothing new to serve.
	Paused bool
	// Leading: this manager's control loops run.
	Leading bool
	// Suspect is the offer in which a manager ended, if it is one. It is known
	// by its bundle, and remembered by Trials.
	Suspect Revision
	// Pardoned: a person wants the candidate tried although it was the suspect.
	Pardoned bool
	// Refused is what must not serve, the newest last.
	Refused []Refusal
	// Known tells whether a generation was kept once, on whatever terms; nil: none was.
	Known func(Revision) bool
	// Ended says why what served last went back.
	Ended string
	// Proof says how what serves was proven.
	Proof string
}

func (s *State) known(r Revision) bool { return s.Known != nil && s.Known(r) }

func (s *State) enter(p Phase, reason, message string) {
	s.Phase, s.Reason, s.Message = p, reason, message
}

// settle describes what serves, since there is no candidate any more.
func (s *State) settle() {
	s.Candidate, s.Ready, s.Promoted = Revision{}, false, false
	s.Suspect, s.Pardoned = Revision{}, false
	switch s.Serving {
	case Revision{}:
		s.enter(Waiting, "", "")
	case s.Good:
		s.enter(Kept, "", s.Proof)
	default:
		s.enter(Serving, "", "")
	}
}

// Offer tells what the source holds now. Again says that something else was
// there since it held this: who offers again means it.
func (s *State) Offer(revision Revision, again bool) Action {
	s.anew(revision, again)
	s.Offered = revision
	if revision == s.Serving {
		s.settle()
		return Drop
	}
	if revision == s.Candidate && s.Ready {
		return Nothing
	}
	// A suspect is known by its bundle: whoever wants it tried means it on other terms,
	// too.
	pardoned := s.Pardoned && s.Candidate.Bundle == revision.Bundle || again && s.known(revision)
	s.settle()
	if r := s.refusal(revision); r != nil {
		s.enter(r.Phase, r.Reason, r.of(revision))
		return Drop
	}
	if s.Leading && revision == s.Good {
		return s.again()
	}
	s.Pardoned = pardoned
	return s.load()
}

// again has Good serve instead of what is observed, since the source offers it
// again. It is loaded, and nothing is to be found out about it.
func (s *State) again() Action {
	s.Candidate, s.Ready = s.Good, true
	if action := s.pass(); action != Nothing {
		return action
	}
	return Drop // what was the candidate before
}

func (s *State) load() Action {
	s.Candidate, s.Ready = s.Offered, false
	s.enter(Loading, "", "")
	return Load
}

// SourceFailed tells that the source holds nothing that could be loaded.
func (s *State) SourceFailed(reason, message string) Action {
	s.settle()
	s.Offered = Revision{}
	s.enter(Rejected, reason, message)
	return Drop
}

// Reached tells how far the candidate has come.
func (s *State) Reached(p Phase) { s.enter(p, "", "") }

// Failed tells that the candidate cannot be loaded, or not now.
func (s *State) Failed(reason, message string, temporary bool) Action {
	s.Ready = false
	s.enter(Rejected, reason, message)
	if temporary {
		return Retry
	}
	s.Candidate, s.Promoted, s.Pardoned = Revision{}, false, false
	return Drop
}

// RetryDue tells that the time for another try has come.
func (s *State) RetryDue() Action {
	if s.Candidate.none() || s.Phase != Rejected && !s.postponed() {
		return Nothing
	}
	s.Suspect = Revision{} // Trials decide anew
	return s.load()
}

// Loaded tells that the candidate is configured.
func (s *State) Loaded(m Modes) Action {
	if m.Probe == Off {
		return s.ProbeDone("", m)
	}
	return Probe
}

// ProbeDone tells what became of the probe; problem is "" when it went well.
func (s *State) ProbeDone(problem string, m Modes) Action {
	if problem != "" && m.Probe == Required {
		return s.Failed("ProbeFailed", problem, true)
	}
	s.Ready = true
	s.enter(Probed, "", problem)
	switch {
	case s.Serving.none() && !s.Leading: // nobody calls it
		return Serve
	case !s.Leading:
		s.Reason = ReasonStandby
		return Nothing
	case m.Shadow == Off || s.Promoted || s.known(s.Candidate) && s.Candidate.Bundle != s.Serving.Bundle: // the way back is short
		return s.pass()
	}
	return Shadow
}

// Rehearsed tells what the candidate answered before it serves.
func (s *State) Rehearsed(e Evidence, m Modes) Action {
	switch {
	case e.Failure != "" && m.Shadow == Required && !s.renews():
		s.refuse(Refusal{Revision: s.Candidate, Phase: Rejected, Reason: ReasonRehearsalFailed, Message: e.Failure})
		return s.Failed(ReasonRehearsalFailed, e.Failure, false)
	case e.Differs != "" && m.Shadow == Required && !s.intended() && !s.Serving.none():
		s.enter(Held, ReasonShadowDiffers, e.Differs)
		s.refuse(Refusal{Revision: s.Candidate, Phase: Held, Reason: ReasonShadowDiffers, Message: e.Differs})
		return Nothing
	}
	s.enter(Shadowed, "", cmp.Or(e.Failure, e.Differs, e.Summary))
	return s.pass()
}

// pass lets the candidate serve unless somebody wants nothing new to. What serves
// already, with other terms, is not new.
func (s *State) pass() Action {
	if s.Paused && !s.Promoted && !s.Serving.none() && s.Candidate.Bundle != s.Serving.Bundle {
		s.enter(Held, ReasonPaused, "")
		return Nothing
	}
	return Serve
}

// Served tells that the candidate has been swapped in.
func (s *State) Served(m Modes) Action {
	promoted := s.Promoted
	s.Serving = s.Candidate
	s.settle()
	s.enter(Serving, "", "")
	if !s.Leading {
		s.Reason = ReasonStandby
		return Nothing // nobody calls it, so there is nothing to observe
	}
	return s.proven(promoted, m)
}

// proven asks for the proof of what serves, unless nobody wants one.
func (s *State) proven(promoted bool, m Modes) Action {
	switch {
	case s.Serving.none():
		return Nothing
	case m.Observe == Off || promoted || s.Serving == s.Good:
		return Keep
	}
	return Observe
}

// OverBudget tells that what serves fails too often.
func (s *State) OverBudget(message string, m Modes) Action {
	return s.unfit(ReasonErrorBudget, message, m)
}

// unfit has Good serve again, where there is one. Else it is told.
func (s *State) unfit(reason, message string, m Modes) Action {
	switch {
	case s.Serving == s.Good:
		return Nothing
	case m.Observe == Required && !s.Good.none():
		return s.back(reason, message)
	}
	if s.Candidate.none() {
		s.enter(Serving, reason, message)
	}
	return Nothing
}

// PeriodOver tells that the time of observation is over.
func (s *State) PeriodOver() Action {
	switch {
	case s.Serving.none() || s.Serving == s.Good:
		return Nothing
	case s.Phase != Serving || s.Reason != ReasonErrorBudget:
		return Examine
	case s.Good.none(): // there is no way back, so it has another period
		s.enter(Serving, ReasonUnproven, "in the period before: "+s.Message)
		return Observe
	}
	return Nothing
}

// Examined tells what is known of what serves when its observation is over.
// What nobody could ask is observed for longer.
func (s *State) Examined(e Evidence, m Modes) Action {
	// Invariant R15 (host/SECURITY.md): good is only what was shown.
	unproven := e.Unknown || e.Questions > 0 && e.Answered == 0
	switch {
	case s.Serving.none() || s.Serving == s.Good:
		return Nothing
	case s.Phase == Serving && s.Reason == ReasonErrorBudget:
		return Observe
	case m.Observe != Required || e.Failure == "" && !unproven:
		return Keep
	case e.Failure == "":
		if s.Candidate.none() {
			s.enter(Serving, ReasonUnproven, e.Summary)
		}
		return Observe
	}
	if action := s.unfit(ReasonExaminationFailed, e.Failure, m); action != Nothing {
		return action
	}
	return Observe
}

// KeepDone tells that what serves is the one to come back to from now on.
func (s *State) KeepDone() {
	if s.Good.Bundle != s.Serving.Bundle { // on other terms it is the same to go back to
		s.Previous = s.Good
	}
	s.Good = s.Serving
	if s.Previous.Bundle == s.Good.Bundle || s.Previous.Terms != s.Good.Terms { // it is saved, and loaded with the terms of then
		s.Previous = Revision{}
	}
	if s.Candidate.none() && s.Phase != Rejected { // which is about what is offered
		s.enter(Kept, "", s.Proof)
	}
}

// back lets Good serve again, and what serves not any more.
func (s *State) back(reason, message string) Action {
	s.refuseServing(reason, message)
	s.Ended = reason
	s.pardon(s.Good)
	s.Serving = s.Good
	if s.refusal(s.Previous) != nil { // nobody goes back to that
		s.Previous = Revision{}
	}
	if s.Suspect == s.Good { // a person wants it all the same
		s.Suspect = Revision{}
	}
	// No need to load what serves, and no sense in what is refused now.
	if s.Candidate.Bundle == s.Good.Bundle || s.refusal(s.Candidate) != nil {
		s.Candidate, s.Ready, s.Promoted, s.Pardoned = Revision{}, false, false, false
	}
	if s.Candidate.none() {
		s.enter(RolledBack, reason, message)
	}
	return RollBack
}

// refuseServing: what failed by itself stays out until a person promotes it.
// What a person sent back, or was kept once, stays out while its offer stands.
func (s *State) refuseServing(reason, message string) {
	// Invariant R6 (host/SECURITY.md): what went back by itself is not loaded again, unless a person
	// wants it.
	refusal := Refusal{Revision: s.Serving, Scope: s.blame(s.Good), Phase: RolledBack, Reason: reason, Message: message}
	// Of terms there is no offer that could stand.
	if (reason == ReasonByOperator || s.known(s.Serving)) && refusal.Scope != ScopeRevision {
		refusal.Scope, refusal.Stands = ScopeBundle, true
	}
	if !refusal.Stands || s.Offered.Bundle == s.Serving.Bundle {
		s.refuse(refusal)
	}
}

// String is for messages and tests.
func (s *State) String() string {
	parts := []string{string(s.Phase)}
	for _, p := range [][2]string{{"reason", s.Reason}, {"offered", s.Offered.String()},
		{"candidate", s.Candidate.String()}, {"serving", s.Serving.String()}, {"good", s.Good.String()}, {"previous", s.Previous.String()}} {
		if p[1] != "" {
			parts = append(parts, p[0]+"="+p[1])
		}
	}
	return strings.Join(parts, " ")
}
