package rollout

import (
	"cmp"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
)

// Phase is the progress of a provider's rollout.
type Phase string

// The phases, in their order, then those off the way.
const (
	Waiting    Phase = "Waiting" // for an offer
	Loading    Phase = "Loading"
	Verified   Phase = "Verified"
	Compiled   Phase = "Compiled"
	Described  Phase = "Described"
	Configured Phase = "Configured"
	Probed     Phase = "Probed"
	Shadowed   Phase = "Shadowed"
	Serving    Phase = "Serving" // and under observation
	Kept       Phase = "Kept"

	Rejected   Phase = "Rejected"   // not fit to serve
	Held       Phase = "Held"       // fit, but not promoted
	RolledBack Phase = "RolledBack" // it served before
)

// Mode says how a rollout reacts to a failing phase.
type Mode string

// The modes of a phase.
const (
	Required Mode = "Required" // a failure ends the rollout
	Allowed  Mode = "Allowed"  // a failure is reported
	Off      Mode = "Off"      // the phase is left out
)

// Reasons of this package, in the CamelCase of Events.
const (
	ReasonStandby       = "Standby"
	ReasonPaused        = "Paused"
	ReasonShadowDiffers = "ShadowDiffers"
	ReasonErrorBudget   = "ErrorBudgetExceeded"
	ReasonByOperator    = "ByOperator"
	// ReasonRehearsalFailed: a question of the manager failed before the takeover,
	// ReasonExaminationFailed: during the observation.
	ReasonRehearsalFailed   = report.RehearsalFailed
	ReasonExaminationFailed = "ExaminationFailed"
	// ReasonUnproven: there is no evidence yet.
	ReasonUnproven = "Unproven"
	// ReasonModuleSuspected: a manager ended while it ran this.
	ReasonModuleSuspected = report.ModuleSuspected
)

// Modes are those of the optional phases.
type Modes struct{ Probe, Shadow, Observe Mode }

// Action is the next step of the state machine.
type Action int

// The actions. Each ends in a call of the method in its comment.
const (
	Nothing  Action = iota
	Load            // Reached, and Loaded or Failed
	Probe           // ProbeDone
	Shadow          // Rehearsed
	Serve           // Served
	Observe         // Unfit, or Examine when the period is over
	Examine         // Examined
	Keep            // KeepDone
	RollBack        // no call: Good serves again
	Drop            // no call: release the candidate, if any
	Retry           // Load, after a delay
)

// State is the state of a provider's rollout. It has no effects: each method takes an event
// and returns the next step. A new manager begins with the zero State and Phase Waiting.
type State struct {
	Phase           Phase
	Reason, Message string
	// Offered is the source's content; Candidate is being brought to serve, if any.
	Offered, Candidate Revision
	// Ready: the candidate is loaded and probed.
	Ready bool
	// Promoted: an operator has promoted the candidate.
	Promoted bool
	// Serving serves; Good was kept last; Previous was kept before it.
	Serving, Good, Previous Revision
	// Paused: nothing new may serve.
	Paused bool
	// Leading: this manager's control loops run.
	Leading bool
	// Pardoned: an operator wants the candidate tried although it was the suspect.
	Pardoned bool
	// Refused are the refusals, the newest last.
	Refused []Refusal
	// Known reports whether a generation was ever kept, on any terms; nil: none was.
	Known func(Revision) bool
	// Ended says why the last serving generation was rolled back.
	Ended string
	// Proof says how the serving generation was proven.
	Proof string
	// emptied: the source held nothing loadable since the last offer.
	emptied bool
}

func (s *State) known(r Revision) bool { return s.Known != nil && s.Known(r) }

func (s *State) enter(p Phase, reason, message string) {
	s.Phase, s.Reason, s.Message = p, reason, message
}

// settle describes the serving generation, since the candidate is gone.
func (s *State) settle() {
	s.Candidate, s.Ready, s.Promoted, s.Pardoned = Revision{}, false, false, false
	switch s.Serving {
	case Revision{}:
		s.enter(Waiting, "", "")
	case s.Good:
		s.enter(Kept, "", s.Proof)
	default:
		s.enter(Serving, "", "")
	}
}

// Offer tells the source's content. Again says that the source held other content in
// between: a repeated offer is deliberate.
func (s *State) Offer(revision Revision, again bool) Action {
	s.anew(revision, again)
	s.Offered, s.emptied = revision, false
	if revision == s.Serving {
		s.settle()
		return Drop
	}
	if revision == s.Candidate && s.Ready {
		return Nothing
	}
	// Trials knows a suspect by its bundle: a pardon covers all terms.
	pardoned := s.Pardoned && s.Candidate.Bundle == revision.Bundle || again && s.known(revision)
	s.settle()
	if r := s.refusal(revision); r != nil {
		s.enter(r.Phase, r.Reason, r.of(revision))
		return Drop
	}
	if s.Leading && revision == s.Good { // it is loaded, and nothing is left to find out
		s.Candidate, s.Ready = s.Good, true
		return cmp.Or(s.pass(), Drop) // the previous candidate
	}
	s.Pardoned = pardoned
	return s.load()
}

func (s *State) load() Action {
	s.Candidate, s.Ready = s.Offered, false
	s.enter(Loading, "", "")
	return Load
}

// SourceFailed tells that the source holds nothing loadable.
func (s *State) SourceFailed(reason, message string) Action {
	s.settle()
	s.Offered, s.emptied = Revision{}, true
	return s.Failed(reason, message, false)
}

// Reached tells the candidate's progress.
func (s *State) Reached(p Phase) { s.enter(p, "", "") }

// Failed tells that the candidate cannot be loaded, for good or for now.
func (s *State) Failed(reason, message string, temporary bool) Action {
	s.Ready = false
	s.enter(Rejected, reason, message)
	s.Promoted = s.Promoted && !s.suspected() // the promotion was made before the suspicion
	if temporary {
		return Retry
	}
	s.Candidate, s.Promoted, s.Pardoned = Revision{}, false, false
	return Drop
}

// RetryDue tells that another try is due.
func (s *State) RetryDue() Action {
	if s.Candidate.none() || s.Phase != Rejected && !s.postponed() {
		return Nothing
	}
	return s.load()
}

// Loaded tells that the candidate is configured.
func (s *State) Loaded(m Modes) Action {
	if m.Probe == Off {
		return s.ProbeDone("", m)
	}
	return Probe
}

// ProbeDone tells the result of the probe; problem is "" for success.
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
	case m.Shadow == Off || s.Promoted || s.known(s.Candidate) && s.Candidate.Bundle != s.Serving.Bundle: // a rollback must be quick
		return s.pass()
	}
	return Shadow
}

// Rehearsed tells the candidate's rehearsal.
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

// pass lets the candidate serve unless the rollout is paused. The serving bundle on other
// terms is not new.
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

// proven asks for the proof of the serving generation, unless it is switched off.
func (s *State) proven(promoted bool, m Modes) Action {
	switch {
	case s.Serving.none():
		return Nothing
	case m.Observe == Off || promoted || s.Serving == s.Good:
		return Keep
	}
	return Observe
}

// Unfit tells that the serving generation fails too often, or failed its examination: Good
// serves again, if there is one. Otherwise it is reported.
func (s *State) Unfit(reason, message string, m Modes) Action {
	switch {
	case s.Serving == s.Good:
		return Nothing
	case m.Observe == Required && !s.Good.none():
		return s.back(reason, message)
	}
	s.doubt(reason, message)
	return Nothing
}

// doubt says why the serving generation is not kept yet, unless the offer matters more.
func (s *State) doubt(reason, message string) Action {
	if s.Candidate.none() {
		s.enter(Serving, reason, message)
	}
	return Observe
}

// Examined tells the evidence at the end of the observation. Without evidence the
// observation is prolonged.
func (s *State) Examined(e Evidence, m Modes) Action {
	// Invariant R15 (host/SECURITY.md): good needs evidence.
	unproven := e.Unknown || e.Questions > 0 && e.Answered == 0
	switch {
	case s.Serving.none() || s.Serving == s.Good:
		return Nothing
	case s.Phase == Serving && s.Reason == ReasonErrorBudget && !s.Good.none():
		return Nothing // an operator may promote it
	case s.Phase == Serving && s.Reason == ReasonErrorBudget: // nothing to go back to: another period
		return s.doubt(ReasonUnproven, "in the previous period: "+s.Message)
	case m.Observe != Required || e.Failure == "" && !unproven:
		return Keep
	case e.Failure == "":
		return s.doubt(ReasonUnproven, e.Summary)
	}
	return cmp.Or(s.Unfit(ReasonExaminationFailed, e.Failure, m), Observe)
}

// KeepDone tells that the serving generation is the one to go back to from now on.
func (s *State) KeepDone() {
	if s.Good.Bundle != s.Serving.Bundle { // the same bundle on other terms does not replace itself
		s.Previous = s.Good
	}
	s.Good = s.Serving
	if s.Previous.Bundle == s.Good.Bundle || s.Previous.Terms != s.Good.Terms { // it is saved, and will be loaded with the terms of that time
		s.Previous = Revision{}
	}
	if !s.Candidate.none() || s.Phase != Serving { // it concerns an offer that does not serve
		return
	}
	s.enter(Kept, "", s.Proof)
	if r := s.refusal(s.Offered); r != nil && s.Offered != s.Serving { // as when it was offered
		s.enter(r.Phase, r.Reason, r.of(s.Offered))
	}
}

// back lets Good serve again in place of the serving generation.
func (s *State) back(reason, message string) Action {
	s.refuseServing(reason, message)
	s.Ended = reason
	s.pardon(s.Good)
	s.Serving = s.Good
	if s.refusal(s.Previous) != nil { // a refused one is no way back
		s.Previous = Revision{}
	}
	// Neither the serving generation nor a refused one needs loading.
	if s.Candidate.Bundle == s.Good.Bundle || s.refusal(s.Candidate) != nil {
		s.Candidate, s.Ready, s.Promoted, s.Pardoned = Revision{}, false, false, false
	}
	if s.Candidate.none() {
		s.enter(RolledBack, reason, message)
	}
	return RollBack
}

// takesModuleBack: a rollback concerns the module with any configuration. If it is the way
// back with another configuration, that of now is at fault.
func (s *State) takesModuleBack() bool {
	return s.blame(s.Good) == ScopeModule && s.Previous.Module != s.Serving.Module
}

// refuseServing refuses the serving generation. A failure by itself holds until an operator
// promotes it. A rollback by an operator, or of a generation kept before, holds while its
// offer stands; by an operator that of the module, whatever its configuration.
func (s *State) refuseServing(reason, message string) {
	// Invariant R6 (host/SECURITY.md): after a rollback by itself a generation is loaded again only
	// if an operator promotes it.
	refusal := Refusal{Revision: s.Serving, Scope: s.blame(s.Good), Phase: RolledBack, Reason: reason, Message: message}
	switch {
	case refusal.Scope == ScopeRevision: // terms are never offered, so such an offer could not stand
	case reason == ReasonByOperator && s.takesModuleBack():
		refusal.Stands = true
	case reason == ReasonByOperator || s.known(s.Serving):
		refusal.Scope, refusal.Stands = ScopeBundle, true
	}
	if !refusal.Stands || refusal.covers(s.Offered) {
		s.refuse(refusal)
	}
}
