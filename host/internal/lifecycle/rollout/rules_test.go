package rollout_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
)

// A person's rollback is about the offer that stands in the source. Who puts the
// module there again, after something else, means it.
func TestWhoOffersAgainMeansIt(t *testing.T) {
	j := &journal{}
	w := newWorld(t, j).run(true)
	w.offer("good")
	w.until(rollout.Kept)
	keep := func(config string) {
		w.offer(config)
		w.until(rollout.Serving)
		w.pass(2 * time.Minute)
		w.until(rollout.Kept)
	}
	keep("next")
	if err := w.command(rollout.CommandRollback, ""); err != nil {
		t.Fatal(err)
	}
	w.until(rollout.RolledBack)
	w.terms("h2") // nobody has offered anything
	w.until(rollout.RolledBack)
	w.offer("third")
	w.untilServing("third+h2")
	w.offer("next")
	w.untilServing("next+h2")
	w.ask(1)
	w.evidence.Store(&rollout.Evidence{Questions: 1, Failure: "it trapped"})
	w.pass(2 * time.Minute)
	if got := w.until(rollout.RolledBack); got.Reason != rollout.ReasonExaminationFailed || got.Message != "it trapped" {
		t.Errorf("report %+v", got)
	}
	w.offer("something else")
	w.until(rollout.Shadowed)
	w.evidence.Store(nil)
	w.offer("next") // also after it has failed: it was kept once
	w.untilServing("next+h2")
	w.serves("next")
}

// A module that a person took back with one configuration is still the way back with the
// configuration that was kept before; what was taken back stays out.
func TestARolledBackConfigurationShutsNoWayBack(t *testing.T) {
	w := newWorld(t, &journal{}).run(true)
	w.Offer(moduleBundle(t, "another", "one"), nil)
	w.untilServing("one+h1")
	w.until(rollout.Kept)
	w.offer("good")
	w.until(rollout.Serving)
	w.pass(2 * time.Minute)
	w.until(rollout.Kept)
	w.Offer(moduleBundle(t, "another", "two"), nil)
	w.untilServing("two+h1")
	for _, serves := range []string{"good", "one"} {
		if err := w.command(rollout.CommandRollback, ""); err != nil {
			t.Fatal(err)
		}
		w.until(rollout.RolledBack)
		w.serves(serves)
	}
	w.Offer(moduleBundle(t, "another", "two"), nil)
	w.serves("one")
}

// Who changes the configuration of a module that a person took back has not offered the module:
// it stays out until it is promoted, or offered after another one. What differs from what serves
// in its configuration alone is taken back with that.
func TestAChangedConfigurationDoesNotUndoARollback(t *testing.T) {
	j := &journal{}
	w := newWorld(t, j).run(true)
	w.offer("good")
	w.until(rollout.Kept)
	next := func(config string) source.Bundle { return moduleBundle(t, "another", config) }
	w.Offer(next("one"), nil)
	w.until(rollout.Serving)
	w.pass(2 * time.Minute)
	w.until(rollout.Kept)
	if err := w.command(rollout.CommandRollback, ""); err != nil {
		t.Fatal(err)
	}
	w.until(rollout.RolledBack)
	for _, config := range []string{"two", "one"} { // also that which was kept
		w.Offer(next(config), nil)
		if got := w.until(rollout.RolledBack); got.Reason != rollout.ReasonByOperator || !got.Promotable {
			t.Errorf("%s: %+v", config, got)
		}
		w.serves("good")
	}
	for _, config := range []string{"two", "one"} { // a restart, and a changed configuration with it
		j.await(func(r rollout.Record) bool { return len(r.Refused) == 1 && r.Held != "bundle "+config })
		again := newWorld(t, j).run(true)
		again.Offer(next(config), nil)
		again.until(rollout.RolledBack)
		again.serves("good")
		again.stop()
	}
	w.offer("good")
	w.until(rollout.Kept)
	w.Offer(next("one"), nil)
	w.untilServing("one+h1")
	if err := w.command(rollout.CommandRollback, ""); err != nil {
		t.Fatal(err)
	}
	w.until(rollout.RolledBack)
	w.Offer(next("two"), nil)
	w.until(rollout.RolledBack)
	if err := w.command(rollout.CommandPromote, "true"); err != nil {
		t.Fatal(err)
	}
	w.untilServing("two+h1")
}

// What fails a rehearsal stays out until a person promotes it.
func TestWhatFailsARehearsalStaysOut(t *testing.T) {
	w := newWorld(t, &journal{}).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	w.evidence.Store(&rollout.Evidence{Questions: 3, Failure: "instance_metadata n: the guest trapped"})
	two := moduleBundle(t, "another", "two")
	w.Offer(two, nil)
	if got := w.until(rollout.Rejected); got.Reason != rollout.ReasonRehearsalFailed || !got.Promotable || got.Generation != 1 {
		t.Errorf("report %+v", got)
	}
	w.evidence.Store(nil)
	w.offer("one")
	w.until(rollout.Kept)
	w.Offer(two, nil)
	if got := w.until(rollout.Rejected); got.Reason != rollout.ReasonRehearsalFailed {
		t.Errorf("report %+v", got)
	}
	if err := w.command(rollout.CommandPromote, two.ModuleDigest()[:12]); err != nil {
		t.Fatal(err)
	}
	w.until(rollout.Kept)
	w.serves("two")
}

// Nothing is kept of which nothing is known, and it says how it was proven.
func TestWhatNobodyCouldAskIsObservedForLonger(t *testing.T) {
	w := newWorld(t, &journal{}).run(true)
	w.offer("one")
	if got := w.until(rollout.Kept); got.Message != "0 calls, 0 failed, 2 questions of the host's own" {
		t.Errorf("message %q", got.Message)
	}
	w.offer("two")
	w.until(rollout.Serving)
	for _, unknown := range []rollout.Evidence{{Unknown: true, Summary: "the objects are not known"}, {Questions: 2, Summary: "the cloud is away"}} {
		w.evidence.Store(&unknown)
		w.pass(2 * time.Minute)
		if got := w.until(rollout.Serving); got.Reason != rollout.ReasonUnproven || got.Message != unknown.Summary {
			t.Errorf("report %+v", got)
		}
	}
	w.evidence.Store(&rollout.Evidence{Summary: "there is nothing to ask about"})
	w.pass(2 * time.Minute)
	if got := w.until(rollout.Kept); got.Message != "there is nothing to ask about" {
		t.Errorf("message %q", got.Message)
	}
}

// What was kept last serves when there is nothing else, whatever is said of it.
func TestTheLastResortServes(t *testing.T) {
	w, trials := withTrials(t, remembering(bundle(t, "newer"), bundle(t, "older")))
	trials.verdict = func(revision string, s trial.Standing) error {
		if s == trial.LastResort && revision == "older" {
			return nil
		}
		return &trial.Suspect{Words: "it ended the manager"}
	}
	w.run(true)
	w.until(rollout.Kept)
	w.serves("older")
	if err := <-w.reporter.journal; !strings.Contains(err.Error(), "it ended the manager") {
		t.Error(err)
	}
	w.Offer(source.Bundle{}, errors.New("the source is away"))
	w.until(rollout.Rejected)
	w.terms("h2") // such as a grant that is withdrawn
	if got := w.until(rollout.Serving); got.Serving == nil || !strings.HasSuffix(got.Serving.Revision, "+h2") {
		t.Errorf("%+v serves", got.Serving)
	}
	w.serves("older")
}

// A restart goes back to what was kept before, when the newest may not run.
func TestARestartGoesBackToWhatWasKeptBefore(t *testing.T) {
	w, trials := withTrials(t, remembering(bundle(t, "newer"), bundle(t, "older")))
	trials.verdict = func(revision string, _ trial.Standing) error {
		if revision == "newer" {
			return &trial.Suspect{Words: "it ended the manager"}
		}
		return nil
	}
	w.run(true)
	w.until(rollout.Kept)
	w.serves("older")
}

// The history knows who served, for how long, and why no more.
func TestTheHistoryIsKept(t *testing.T) {
	j := &journal{}
	w := newWorld(t, j).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	w.ask(3)
	w.offer("two")
	w.until(rollout.Serving)
	if err := w.Command(rollout.Command{Kind: rollout.CommandRollback, By: "kubectl"}); err != nil {
		t.Fatal(err)
	}
	w.until(rollout.RolledBack)
	w.stop()
	h := j.read().History
	if len(h) != 3 {
		t.Fatalf("history %+v", h)
	}
	if one := h[2]; one.Revision != "one" || one.Calls != 3 || one.Why != "Replaced" || one.Kept.IsZero() || one.Questions != 2 {
		t.Errorf("first %+v", one)
	}
	if two := h[1]; two.Revision != "two" || two.Why != rollout.ReasonByOperator || two.By != "kubectl" || !two.Kept.IsZero() {
		t.Errorf("second %+v", two)
	}
	if now := h[0]; now.Revision != "one" || !now.Until.IsZero() || now.Generation != 3 {
		t.Errorf("now %+v", now)
	}
}

// What fails too often, with nothing to go back to, is kept when a whole period
// went well.
func TestTheFirstOneHasAnotherPeriod(t *testing.T) {
	w := newWorld(t, &journal{}).run(true)
	w.evidence.Store(&rollout.Evidence{Unknown: true, Summary: "the objects are not known"})
	w.offer("trap")
	for w.until(rollout.Serving).Reason != rollout.ReasonUnproven {
	}
	w.ask(4)
	if got := w.until(rollout.Serving); got.Reason != rollout.ReasonErrorBudget {
		t.Errorf("report %+v", got)
	}
	w.evidence.Store(nil)
	w.pass(2 * time.Minute)
	w.pass(2 * time.Minute)
	w.until(rollout.Kept)
}

// What is in the source after a restart, and was not before, is a wish as well.
func TestWhatWasOfferedWhileNobodyLookedIsNew(t *testing.T) {
	for _, between := range []bool{false, true} {
		j := &journal{}
		w := newWorld(t, j).run(true)
		w.offer("good")
		w.until(rollout.Kept)
		w.offer("next")
		w.until(rollout.Serving)
		w.pass(2 * time.Minute)
		w.until(rollout.Kept)
		if err := w.command(rollout.CommandRollback, ""); err != nil {
			t.Fatal(err)
		}
		w.until(rollout.RolledBack)
		if between {
			w.offer("good")
			w.until(rollout.Kept)
		}
		w.stop()

		w = newWorld(t, j).run(true)
		w.until(rollout.Kept)
		w.offer("next")
		if got := w.untilEither(rollout.Serving, rollout.RolledBack); (got.Phase == rollout.Serving) != between {
			t.Errorf("something else was there: %v; %s %s", between, got.Phase, got.Message)
		}
		w.stop()
	}
}

// A restart changes nothing: what was kept an hour ago is not kept since now.
func TestARestartKnowsSinceWhen(t *testing.T) {
	j := &journal{}
	w := newWorld(t, j).run(true)
	w.offer("one")
	since := w.until(rollout.Kept).Since
	w.stop()
	next := newWorld(t, j)
	next.clock.Step(time.Hour)
	next.run(true)
	if got := next.until(rollout.Kept).Since; since.IsZero() || !got.Equal(since) {
		t.Errorf("kept since %v, and after a restart since %v", since, got)
	}
}
