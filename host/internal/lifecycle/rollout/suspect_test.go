package rollout

import "testing"

func TestWhatWaitsForAnotherManager(t *testing.T) {
	standby := func(t *testing.T) State {
		s := State{Phase: Waiting}
		s.Resumed(id("a"), id("a"))
		want(t, s.Offer(id("b"), false), Load)
		want(t, s.Postponed("the leader tries it"), Retry)
		check(t, &s, "Waiting reason=Standby offered=b candidate=b serving=a good=a")
		return s
	}
	t.Run("looks again", func(t *testing.T) {
		s := standby(t)
		want(t, s.RetryDue(), Load)
	})
	t.Run("leads", func(t *testing.T) {
		s := standby(t)
		want(t, s.Lead(all), Load)
	})
	t.Run("gets another offer", func(t *testing.T) {
		s := standby(t)
		want(t, s.Offer(id("a"), false), Drop)
		want(t, s.RetryDue(), Nothing)
	})
}

func TestSuspects(t *testing.T) {
	suspected := func(t *testing.T) State {
		s := leading("a")
		want(t, s.Offer(id("b"), false), Load)
		want(t, s.Failed(ReasonModuleSuspected, "it ended the manager", false), Drop)
		check(t, &s, "Rejected reason=ModuleSuspected offered=b serving=a good=a")
		return s
	}
	t.Run("are not tried again by themselves", func(t *testing.T) {
		s := suspected(t)
		want(t, s.RetryDue(), Nothing)
		want(t, s.Resume(), Nothing)
	})
	t.Run("are tried again when their time is over, or by a person before", func(t *testing.T) {
		s := leading("a")
		want(t, s.Offer(id("b"), false), Load)
		want(t, s.Failed(ReasonModuleSuspected, "it ended three managers", true), Retry)
		check(t, &s, "Rejected reason=ModuleSuspected offered=b candidate=b serving=a good=a")
		promoted := s
		want(t, s.RetryDue(), Load)
		if a, err := promoted.Promote(); err != nil || a != Load || !promoted.Pardoned {
			t.Fatal(a, err, promoted.Pardoned)
		}
	})
	t.Run("can be promoted, and go the way of all offers", func(t *testing.T) {
		s := suspected(t)
		a, err := s.Promote()
		if err != nil || a != Load || !s.Pardoned {
			t.Fatal(a, err, s.Pardoned)
		}
		s.Loaded(all)
		want(t, s.ProbeDone("", all), Shadow)
		want(t, s.Rehearsed(Evidence{Differs: ""}, all), Serve)
		want(t, s.Served(all), Observe)
		if s.Pardoned {
			t.Error("what comes next is pardoned, too")
		}
	})
	t.Run("can be promoted after something else was told", func(t *testing.T) {
		s := leading("a")
		s.to("c", Observe, all)
		want(t, s.Offer(id("b"), false), Load)
		want(t, s.Failed(ReasonModuleSuspected, "it ended the manager", false), Drop)
		want(t, s.Unfit(ReasonErrorBudget, "traps", all), RollBack)
		check(t, &s, "RolledBack reason=ErrorBudgetExceeded offered=b serving=a good=a")
		if a, err := s.Promote(); err != nil || a != Load || !s.Pardoned {
			t.Fatal(a, err, s.Pardoned)
		}
	})
	t.Run("can be promoted while something else is in doubt", func(t *testing.T) {
		s := leading("a")
		s.to("c", Observe, all)
		want(t, s.Offer(id("b"), false), Load)
		want(t, s.Failed(ReasonModuleSuspected, "it ended the manager", false), Drop)
		want(t, s.Examined(Evidence{Unknown: true}, all), Observe)
		if a, err := s.Promote(); err != nil || a != Load || !s.Pardoned {
			t.Fatal(a, err, s.Pardoned) // it is what the source holds, and what the person names
		}
	})
	t.Run("were not known as such when they were promoted", func(t *testing.T) {
		s := leading("a")
		want(t, s.Offer(id("b"), false), Load)
		if _, err := s.Promote(); err != nil {
			t.Fatal(err)
		}
		want(t, s.Failed(ReasonModuleSuspected, "it ended three managers", true), Retry)
		want(t, s.RetryDue(), Load)
		want(t, s.Loaded(all), Probe)
		want(t, s.ProbeDone("", all), Shadow)
	})
	t.Run("only while they are offered", func(t *testing.T) {
		s := suspected(t)
		want(t, s.Offer(id("a"), false), Drop)
		if _, err := s.Promote(); err == nil {
			t.Error("something was promoted")
		}
	})
	t.Run("are told of by the next leader", func(t *testing.T) {
		s := State{Phase: Waiting}
		want(t, s.to("a", Nothing, all), Nothing)
		s.Offer(id("b"), false)
		want(t, s.Failed(ReasonModuleSuspected, "it ended the leader", false), Drop)
		want(t, s.Lead(all), Nothing)
		want(t, s.proven(true, all), Keep)
		s.KeepDone()
		check(t, &s, "Rejected reason=ModuleSuspected offered=b serving=a good=a")
	})
	t.Run("not by a standby", func(t *testing.T) {
		s := suspected(t)
		s.Leading = false
		if _, err := s.Promote(); err == nil {
			t.Error("something was promoted")
		}
	})
}

// A person's wish holds for the bundle: terms that change while it is loaded, as by a
// rotated password, do not take it back. Another bundle does.
func TestAPromotedSuspectStaysPardonedOnOtherTerms(t *testing.T) {
	suspect := Revision{Module: "m", Bundle: "suspect", Terms: "h1"}
	s := State{Leading: true}
	s.Offer(suspect, false)
	s.Failed(ReasonModuleSuspected, "a manager ended", false)
	if a, err := s.Promote(); err != nil || a != Load || !s.Pardoned {
		t.Fatal(a, err, s.Pardoned)
	}
	suspect.Terms = "h2"
	if a := s.Offer(suspect, false); a != Load || !s.Pardoned {
		t.Errorf("on other terms: %v, pardoned %v", a, s.Pardoned)
	}
	if a := s.Offer(Revision{Module: "m", Bundle: "another", Terms: "h2"}, false); a != Load || s.Pardoned {
		t.Errorf("another bundle: %v, pardoned %v", a, s.Pardoned)
	}
}
