package rollout_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// The source goes back to the old version while the new one is observed, and a
// person rolls back after that: what serves is never what is refused.
func TestTheOldVersionIsAppliedAgainAndRolledBack(t *testing.T) {
	j := &journal{}
	w := newWorld(t, j).run(true)
	keep := func(config string) {
		w.offer(config)
		w.until(rollout.Serving)
		w.pass(2 * time.Minute)
		w.until(rollout.Kept)
	}
	w.offer("zero")
	w.until(rollout.Kept)
	keep("one")
	one := w.slot.Serving()
	w.offer("two")
	w.until(rollout.Serving)
	w.offer("one")
	w.until(rollout.Kept)
	w.serves("one")
	if w.slot.Serving() != one {
		t.Error("what was kept is loaded a second time")
	}
	if err := w.command(rollout.CommandRollback, ""); err != nil {
		t.Fatal(err)
	}
	got := w.until(rollout.RolledBack)
	w.serves("zero")
	if got.Serving.Revision != "zero+h1" || got.Good.Revision != "zero+h1" {
		t.Errorf("serving %s, good %s", got.Serving.Revision, got.Good.Revision)
	}
	j.await(func(r rollout.Record) bool { return good("zero")(r) && len(r.Refused) == 1 })
	if refused := j.read().Refused[0].Revision.Bundle; refused != "one" {
		t.Errorf("%s is refused, want one", refused)
	}
	if err := w.command(rollout.CommandRollback, ""); err == nil {
		t.Error("there is nothing more in reserve")
	}
}

// What stays in reserve is not loaded a second time when it is offered again.
func TestTheReserveIsNotLoadedTwice(t *testing.T) {
	w := newWorld(t, nil).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	one := w.slot.Serving()
	w.offer("two")
	w.until(rollout.Serving)
	w.pass(2 * time.Minute)
	w.until(rollout.Kept)
	w.offer("one")
	w.until(rollout.Serving)
	if w.slot.Serving() != one {
		t.Error("what was in reserve is loaded a second time")
	}
	w.pass(2 * time.Minute)
	w.until(rollout.Kept)
	if err := w.command(rollout.CommandRollback, ""); err != nil {
		t.Fatal(err)
	}
	w.until(rollout.RolledBack)
	w.serves("two")
}

// A module that broke its budget is not brought back by an edit of its
// configuration, or by a Secret that is rotated; a person may try it so.
func TestAnEditDoesNotBringABrokenModuleBack(t *testing.T) {
	j := &journal{}
	w := newWorld(t, j).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	w.Offer(moduleBundle(t, "broken", "trap"), nil)
	w.breaks()
	other := moduleBundle(t, "broken", "edited")
	refused := func() {
		t.Helper()
		got := w.until(rollout.RolledBack)
		if got.Reason != rollout.ReasonErrorBudget || !strings.Contains(got.Message, "this module was refused with another configuration") {
			t.Errorf("%s: %s", got.Reason, got.Message)
		}
		w.serves("one")
	}
	w.Offer(other, nil)
	refused()
	w.terms("h2")
	refused()
	j.await(func(r rollout.Record) bool { return len(r.Refused) == 1 })
	w.stop()

	w = newWorld(t, j).run(true)
	w.until(rollout.Kept)
	w.Offer(other, nil)
	refused()
	digest := plugin.Bundle{Module: other.Module}.Digests().Module
	if err := w.command(rollout.CommandPromote, digest[:12]); err != nil {
		t.Fatal(err)
	}
	w.until(rollout.Shadowed) // it goes the way of all offers
	w.until(rollout.Serving)
	w.serves("edited")
	w.pass(2 * time.Minute)
	w.until(rollout.Kept)
}

// Where only the configuration differs from what was good, that is what was
// wrong: the next one is tried.
func TestABrokenConfigurationIsMendedByAnother(t *testing.T) {
	w := newWorld(t, nil).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	w.offer("trap")
	w.breaks()
	w.terms("h2") // a rotated Secret mends nothing
	if got := w.until(rollout.RolledBack); got.Reason != rollout.ReasonErrorBudget {
		t.Errorf("report %+v", got)
	}
	w.until(rollout.Serving) // it reaches what serves, all the same
	w.serves("one")
	w.until(rollout.RolledBack)
	w.offer("mended")
	w.until(rollout.Serving)
	w.serves("mended")
}

// What a person has paused is not resumed by a journal that cannot be read for
// a moment.
func TestPauseOutlivesATakeover(t *testing.T) {
	one := bundle(t, "one")
	j := remembering(one)
	j.record.Paused, j.unread = true, []error{nil, errors.New("the API server is away"), errors.New("the API server is away")}
	w := newWorld(t, j).run(false)
	w.until(rollout.Kept)
	w.offer("two")
	w.until(rollout.Probed)
	w.Lead()
	for range 2 {
		if err := <-w.reporter.journal; !strings.Contains(err.Error(), "is repeated") {
			t.Error(err)
		}
		w.serves("one")
		w.pass(time.Minute)
	}
	if got := w.until(rollout.Held); got.Reason != rollout.ReasonPaused || !got.Paused {
		t.Errorf("report %+v", got)
	}
	w.serves("one")
	if !j.read().Paused {
		t.Error("the record says that nothing is paused")
	}
	if err := w.command(rollout.CommandResume, ""); err != nil {
		t.Error(err)
	}
	w.until(rollout.Serving)
	w.serves("two")
}

// A record that is damaged for good does not resume it either.
func TestPauseOutlivesADamagedRecord(t *testing.T) {
	j := &journal{record: rollout.Record{Paused: true}, unread: []error{nil, rollout.ErrNoRecord}}
	w := newWorld(t, j).run(false)
	w.offer("one")
	w.until(rollout.Serving)
	w.offer("two")
	w.until(rollout.Probed)
	w.Lead()
	if got := w.until(rollout.Held); got.Reason != rollout.ReasonPaused || !got.Paused {
		t.Errorf("report %+v", got)
	}
	w.serves("one")
}

// A command that comes before the record is read waits for it.
func TestCommandsWaitForTheRecord(t *testing.T) {
	one := bundle(t, "one")
	j := remembering(one)
	j.unread = []error{nil, errors.New("the API server is away")}
	w := newWorld(t, j).run(false)
	w.until(rollout.Kept)
	w.Lead()
	if err := <-w.reporter.journal; !strings.Contains(err.Error(), "is repeated") {
		t.Error(err)
	}
	if err := w.Command(rollout.Command{Kind: rollout.CommandPause}); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Minute)
	if err := <-w.reporter.commands; err != nil {
		t.Errorf("the command is refused: %v", err)
	}
	j.await(func(r rollout.Record) bool { return r.Paused })
}

// What was decided last is written when the manager ends, although the journal
// failed just before.
func TestTheJournalIsFlushed(t *testing.T) {
	j := &journal{fail: 1000}
	w := newWorld(t, j).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	if err := <-w.reporter.journal; !strings.Contains(err.Error(), "away") {
		t.Error(err)
	}
	j.mend()
	w.stop()
	if r := j.read(); !good("one")(r) {
		t.Errorf("record %+v", r)
	}
}

// What the leader before has let through again, after it was refused, is
// refused no more by the standby that knew of the refusal only.
func TestAPromotionOutlivesATakeover(t *testing.T) {
	for _, phase := range []rollout.Phase{rollout.RolledBack, rollout.Held} {
		one := bundle(t, "one")
		refused := rollout.Refusal{Revision: rollout.Revision{Bundle: "two"}, Scope: rollout.ScopeBundle, Phase: phase, Reason: "ByOperator", Message: "a person asked for it"}
		j := remembering(one)
		j.record.Refused = []rollout.Refusal{refused}
		w := newWorld(t, j).run(false)
		w.until(rollout.Kept)
		w.offer("two")
		w.until(phase)
		j.forget() // a person has promoted it, and the leader ends before it is kept
		w.Lead()
		w.until(rollout.Serving)
		w.serves("two")
		if got := j.read().Refused; len(got) > 0 {
			t.Errorf("%s: the record refuses it again: %+v", phase, got)
		}
	}
}

// A generation is observed from the swap on: also failures count that come before
// anybody was told that it serves.
func TestFailuresCountFromTheSwapOn(t *testing.T) {
	w := newWorld(t, &journal{})
	w.reporter.hear = func(x rollout.Report) {
		if x.Phase == rollout.Serving {
			w.ask(4)
		}
	}
	w.run(true)
	w.offer("one")
	w.until(rollout.Kept)
	w.offer("trap")
	w.until(rollout.RolledBack)
	w.stop()
}
