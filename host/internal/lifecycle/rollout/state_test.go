package rollout

import (
	"fmt"
	"strings"
	"testing"
)

var all = Modes{Required, Required, Required}

// id names a module and its only configuration.
func id(name string) Revision { return Revision{Module: name, Bundle: name} }

// leading is a state in which good was kept and serves.
func leading(good string) State {
	s := State{Phase: Waiting}
	s.Lead(all)
	s.Resumed(id(good), id(good))
	s.Offer(id(good), false)
	return s
}

// to offers a revision and lets everything go well up to the action.
func (s *State) to(revision string, stop Action, m Modes) Action {
	a := s.Offer(id(revision), false)
	for a != stop {
		switch a {
		case Load:
			for _, p := range []Phase{Verified, Compiled, Described, Configured} {
				s.Reached(p)
			}
			a = s.Loaded(m)
		case Probe:
			a = s.ProbeDone("", m)
		case Shadow:
			a = s.Rehearsed(Evidence{Differs: ""}, m)
		case Serve:
			a = s.Served(m)
		case Observe:
			a = Examine
		case Examine:
			a = s.Examined(Evidence{}, m)
		case Keep:
			s.KeepDone()
			return Nothing
		default:
			return a
		}
	}
	return a
}

func check(t *testing.T, s *State, want string) {
	t.Helper()
	if got := s.String(); got != want {
		t.Errorf("state %q, want %q", got, want)
	}
}

func want(t *testing.T, got, action Action) {
	t.Helper()
	if got != action {
		t.Fatalf("action %v, want %v", got, action)
	}
}

func TestTheWayToKept(t *testing.T) {
	s := leading("a")
	want(t, s.to("b", Observe, all), Observe)
	check(t, &s, "Serving offered=b serving=b good=a")
	want(t, s.Examined(Evidence{}, all), Keep)
	s.KeepDone()
	check(t, &s, "Kept offered=b serving=b good=b previous=a")
}

func TestTheFirstOneIsKeptAtOnce(t *testing.T) {
	s := State{Phase: Waiting}
	s.Lead(all)
	want(t, s.to("a", Keep, all), Keep)
	s.KeepDone()
	check(t, &s, "Kept offered=a serving=a good=a")
}

func TestAFailureEndsTheRollout(t *testing.T) {
	for name, test := range map[string]struct {
		stop Action
		fail func(s *State, m Modes) Action
		then Action
		want string
	}{
		"load":   {Load, func(s *State, _ Modes) Action { return s.Failed("ModuleInvalid", "bad", false) }, Drop, "Rejected reason=ModuleInvalid offered=b serving=a good=a"},
		"probe":  {Probe, func(s *State, m Modes) Action { return s.ProbeDone("away", m) }, Retry, "Rejected reason=ProbeFailed offered=b candidate=b serving=a good=a"},
		"shadow": {Shadow, func(s *State, m Modes) Action { return s.Rehearsed(Evidence{Differs: "zone"}, m) }, Nothing, "Held reason=ShadowDiffers offered=b candidate=b serving=a good=a"},
		"budget": {Observe, func(s *State, m Modes) Action { return s.Unfit(ReasonErrorBudget, "traps", m) }, RollBack, "RolledBack reason=ErrorBudgetExceeded offered=b serving=a good=a"},
		"source": {Shadow, func(s *State, _ Modes) Action { return s.SourceFailed("ModuleKeyMissing", "none") }, Drop, "Rejected reason=ModuleKeyMissing serving=a good=a"},
	} {
		t.Run(name, func(t *testing.T) {
			s := leading("a")
			want(t, s.to("b", test.stop, all), test.stop)
			want(t, test.fail(&s, all), test.then)
			check(t, &s, test.want)
		})
	}
}

func TestAllowedFailuresArePassedBy(t *testing.T) {
	m := Modes{Allowed, Allowed, Allowed}
	s := leading("a")
	want(t, s.to("b", Probe, m), Probe)
	want(t, s.ProbeDone("away", m), Shadow)
	want(t, s.Rehearsed(Evidence{Differs: "zone"}, m), Serve)
	want(t, s.Served(m), Observe)
	want(t, s.Unfit(ReasonErrorBudget, "traps", m), Nothing)
	want(t, s.Examined(Evidence{}, m), Nothing)
	check(t, &s, "Serving reason=ErrorBudgetExceeded offered=b serving=b good=a")
}

func TestPhasesThatAreOff(t *testing.T) {
	m := Modes{Off, Off, Off}
	s := leading("a")
	want(t, s.Offer(id("b"), false), Load)
	want(t, s.Loaded(m), Serve)
	want(t, s.Served(m), Keep)
}

func TestWhatWasRefusedStaysRefused(t *testing.T) {
	s := leading("a")
	s.to("b", Observe, all)
	s.Unfit(ReasonErrorBudget, "traps", all)
	want(t, s.Offer(id("b"), false), Drop)
	check(t, &s, "RolledBack reason=ErrorBudgetExceeded offered=b serving=a good=a")
	want(t, s.Offer(id("a"), false), Drop)
	check(t, &s, "Kept offered=a serving=a good=a")
	want(t, s.Offer(id("c"), false), Load)
	for n := range 2 * MaxRefused {
		s.refuse(Refusal{Revision: id(fmt.Sprint(n))})
	}
	if len(s.Refused) != MaxRefused {
		t.Errorf("%d refusals", len(s.Refused))
	}
}

// A Secret that is rotated every hour, while something is held for its
// differences, does not crowd out what went back.
func TestWhatIsHeldCrowdsNothingOut(t *testing.T) {
	s := leading("a")
	s.to("b", Observe, all)
	s.Unfit(ReasonErrorBudget, "traps", all)
	for n := range 2 * MaxRefused {
		revision := id("c")
		revision.Terms = fmt.Sprint(n)
		want(t, s.Offer(revision, false), Load)
		want(t, s.Loaded(all), Probe)
		want(t, s.ProbeDone("", all), Shadow)
		want(t, s.Rehearsed(Evidence{Differs: "zone"}, all), Nothing)
	}
	want(t, s.Offer(id("b"), false), Drop)
	check(t, &s, "RolledBack reason=ErrorBudgetExceeded offered=b serving=a good=a")
}

func TestPromote(t *testing.T) {
	promoted := func(t *testing.T, s *State, action Action) {
		t.Helper()
		got, err := s.Promote()
		if err != nil {
			t.Fatal(err)
		}
		want(t, got, action)
	}
	t.Run("held", func(t *testing.T) {
		s := leading("a")
		s.to("b", Shadow, all)
		s.Rehearsed(Evidence{Differs: "zone"}, all)
		promoted(t, &s, Serve)
		want(t, s.Served(all), Keep)
		if len(s.Refused) != 0 {
			t.Errorf("refused %v", s.Refused)
		}
	})
	t.Run("rolled back", func(t *testing.T) {
		s := leading("a")
		s.to("b", Observe, all)
		s.Unfit(ReasonErrorBudget, "traps", all)
		promoted(t, &s, Load)
		s.Loaded(all)
		want(t, s.ProbeDone("", all), Serve)
		want(t, s.Served(all), Keep)
	})
	t.Run("observed", func(t *testing.T) {
		s := leading("a")
		s.to("b", Observe, all)
		promoted(t, &s, Keep)
	})
	t.Run("on its way", func(t *testing.T) {
		s := leading("a")
		s.to("b", Probe, all)
		promoted(t, &s, Nothing)
		want(t, s.ProbeDone("", all), Serve)
	})
	t.Run("not what fails its probe", func(t *testing.T) {
		s := leading("a")
		s.to("b", Probe, all)
		s.ProbeDone("away", all)
		if a, err := s.Promote(); err == nil || a != Nothing || !strings.Contains(err.Error(), "ProbeFailed") {
			t.Errorf("%v, %v", a, err)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		s := leading("a")
		if _, err := s.Promote(); err == nil {
			t.Error("no error")
		}
	})
}

func TestPause(t *testing.T) {
	s := leading("a")
	s.Pause()
	s.to("b", Shadow, all)
	want(t, s.Rehearsed(Evidence{Differs: ""}, all), Nothing)
	check(t, &s, "Held reason=Paused offered=b candidate=b serving=a good=a")
	want(t, s.Resume(), Serve)
	want(t, s.Served(all), Observe)
	s.Pause()
	want(t, s.Unfit(ReasonErrorBudget, "traps", all), RollBack) // also while paused
}

func TestRollback(t *testing.T) {
	s := leading("a")
	if _, err := s.Rollback(""); err == nil {
		t.Error("there is nothing in reserve")
	}
	s.to("b", Keep, all)
	s.KeepDone()
	a, err := s.Rollback("")
	if err != nil {
		t.Fatal(err)
	}
	want(t, a, RollBack)
	check(t, &s, "RolledBack reason=ByOperator offered=b serving=a good=a")
	want(t, s.Offer(id("b"), false), Drop)
	s.to("c", Observe, all)
	if a, err = s.Rollback(""); err != nil || a != RollBack {
		t.Fatal(a, err)
	}
	check(t, &s, "RolledBack reason=ByOperator offered=c serving=a good=a")
}

func TestStandby(t *testing.T) {
	standby := func(serving, candidate string) State {
		s := State{Phase: Waiting}
		s.Resumed(id(serving), id(serving))
		want(t, s.to(candidate, Nothing, all), Nothing)
		check(t, &s, fmt.Sprintf("Probed reason=Standby offered=%s candidate=%[1]s serving=%s good=%[2]s", candidate, serving))
		return s
	}
	t.Run("what it offers is asked when it leads", func(t *testing.T) {
		s := standby("a", "b")
		want(t, s.Lead(all), Shadow)
	})
	t.Run("the leader refused it", func(t *testing.T) {
		s := standby("a", "b")
		s.refuse(Refusal{Revision: id("b"), Scope: ScopeModule, Phase: RolledBack, Reason: ReasonErrorBudget, Message: "traps"})
		want(t, s.Lead(all), Drop)
		check(t, &s, "RolledBack reason=ErrorBudgetExceeded offered=b serving=a good=a")
	})
	t.Run("the first of all serves at once", func(t *testing.T) {
		s := State{Phase: Waiting}
		want(t, s.to("a", Nothing, all), Nothing)
		check(t, &s, "Serving reason=Standby offered=a serving=a")
		want(t, s.Lead(all), Nothing)
		want(t, s.proven(false, all), Observe)
	})
}
