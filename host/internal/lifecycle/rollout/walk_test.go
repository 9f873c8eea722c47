package rollout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestRandomWalks lets anything happen in any order and looks at what must
// never be.
func TestRandomWalks(t *testing.T) {
	for seed := range uint64(3000) {
		walk(t, rand.New(rand.NewPCG(seed, 1)))
	}
}

func walk(t *testing.T, random *rand.Rand) {
	modes := []Mode{Required, Allowed, Off}
	m := Modes{modes[random.IntN(3)], modes[random.IntN(3)], modes[random.IntN(3)]}
	s := State{Phase: Waiting}
	pending, trace := Nothing, []string{fmt.Sprint(m)}
	problem := func() string { return []string{"", "no"}[random.IntN(2)] }
	for range 60 {
		before := s
		before.Refused = slices.Clone(s.Refused)
		what := "follows"
		switch {
		case pending == Keep:
			s.KeepDone()
			pending = Nothing
		case pending == Serve:
			pending = s.Served(m)
		case random.IntN(3) > 0 && pending != Nothing:
			if what = "follows"; pending == Load {
				what, pending = begin(&s, random, problem(), m)
				break
			}
			pending = follow(&s, pending, problem(), m)
		default:
			what, pending = happen(&s, random, pending, m)
		}
		trace = append(trace, fmt.Sprintf("%s: %v %v", what, &s, pending))
		if wrong := never(&before, &s, pending, m); wrong != "" {
			t.Fatalf("%s:\n%s", wrong, strings.Join(trace, "\n"))
		}
	}
}

// begin asks whether the candidate may be loaded, as Trials do: what the walk
// calls d has ended a manager, and a standby has to wait.
func begin(s *State, random *rand.Rand, problem string, m Modes) (what string, a Action) {
	switch {
	case s.Candidate == id("d") && !s.Pardoned:
		return "suspected", s.Failed(ReasonModuleSuspected, "it ended a manager", random.IntN(2) == 0)
	case !s.Leading && random.IntN(2) == 0:
		return "postponed", s.Postponed("the leader tries it")
	}
	return "loads", follow(s, Load, problem, m)
}

// follow does what an action asks for.
func follow(s *State, a Action, problem string, m Modes) Action {
	switch a {
	case Load:
		if problem != "" {
			return s.Failed("ModuleInvalid", problem, false)
		}
		return s.Loaded(m)
	case Probe:
		return s.ProbeDone(problem, m)
	case Shadow:
		return s.Rehearsed(Evidence{Differs: problem}, m)
	case Retry:
		return s.RetryDue()
	case Observe:
		if problem != "" {
			return s.Unfit(ReasonErrorBudget, problem, m)
		}
		return Examine
	case Examine:
		return s.Examined(Evidence{Failure: problem}, m)
	}
	return Nothing
}

// happen is something from outside. Work that was under way goes on when the
// state asks for nothing else.
func happen(s *State, random *rand.Rand, pending Action, m Modes) (what string, a Action) {
	var err error
	switch random.IntN(8) {
	case 0, 1:
		what, a = "offer", s.Offer(id(string(rune('a'+random.IntN(4)))), random.IntN(2) == 0)
		if a != Nothing {
			return what, a
		}
	case 2:
		return "source failed", s.SourceFailed("Gone", "")
	case 3:
		s.Pause()
		return "pause", pending
	case 4:
		what, a = "resume", s.Resume()
	case 5:
		what = "promote"
		a, err = s.Promote()
	case 6:
		what = "roll back"
		a, err = s.Rollback("")
	case 7:
		if s.Leading {
			return "", pending
		}
		what, a = "lead", s.Lead(m)
		if proof := s.proven(false, m); a == Nothing {
			a = proof
		}
	}
	if a == Nothing || err != nil {
		a = pending
	}
	return what, a
}

// never says what is wrong, or "".
func never(before, s *State, a Action, m Modes) string {
	switch {
	case a == Serve && (s.Candidate.none() || !s.Ready):
		return "serves what is not ready"
	case a == Serve && s.Paused && !s.Promoted && before.Paused && !s.Serving.none() && before.Serving == s.Serving && before.Candidate == s.Candidate && !before.Ready && s.Candidate.Bundle != s.Serving.Bundle:
		return "serves although it is paused"
	case a == Serve && s.refusal(s.Candidate) != nil:
		return "serves what is refused"
	case s.refusal(s.Serving) != nil || s.refusal(s.Good) != nil:
		return "what serves, or is good, is refused"
	case a == Load && s.refusal(s.Candidate) != nil:
		return "loads what is refused"
	case (a == Keep || a == Observe) && !s.Leading:
		return "a standby keeps or observes"
	case a == RollBack && s.Serving != s.Good:
		return "rolls back to something else than the good one"
	case s.Serving == id("d") && before.Serving != id("d") && before.Good != id("d") && before.Previous != id("d") && !before.Pardoned:
		return "serves what is suspected"
	case s.Phase == Kept && s.Offered != s.Serving && s.refusal(s.Offered) != nil:
		return "says nothing of the refusal of what is offered"
	case s.Pardoned && s.Candidate.none():
		return "whatever comes next is pardoned"
	case s.suspected() && (s.Offered.none() || s.Offered == s.Serving || s.Ready):
		return "suspects what is not what was refused"
	case s.Phase == Waiting && !s.Candidate.none() && s.Ready:
		return "waits for another although it is ready"
	case !before.Serving.none() && s.Serving.none():
		return "nothing serves any more"
	case s.Serving != before.Serving && s.Serving != before.Candidate && s.Serving != before.Good && s.Serving != before.Previous:
		return "serves what was neither a candidate nor kept"
	case s.Phase == Kept && s.Serving != s.Good:
		return "kept, but not good"
	case !s.Candidate.none() && s.Candidate == s.Serving:
		return "what serves is a candidate"
	}
	return ""
}
