package rollout_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// keeps offers a configuration, and waits until it is kept.
func (w *world) keeps(config string) {
	w.t.Helper()
	w.offer(config)
	w.until(rollout.Serving)
	w.pass(2 * time.Minute)
	w.until(rollout.Kept)
}

// untilServing waits until a revision is reported to serve: what serves gets new terms
// in between.
func (w *world) untilServing(revision string) {
	w.t.Helper()
	for w.until(rollout.Serving).Serving.Revision != revision {
	}
}

// A person asked for something that could not be done. What goes back by itself
// later was not asked for.
func TestACommandThatWasRefusedIsNotInTheHistory(t *testing.T) {
	j := &journal{}
	w := newWorld(t, j).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	if err := w.Command(rollout.Command{Kind: rollout.CommandRollback, By: "kubectl"}); err != nil {
		t.Fatal(err)
	}
	if err := <-w.reporter.commands; err == nil {
		t.Fatal("there is nothing to go back to")
	}
	w.offer("two trap")
	w.breaks()
	w.stop()
	if h := j.read().History; h[1].Revision != "two trap" || h[1].By != "" {
		t.Errorf("%+v", h[1])
	}
}

// The history says why what served ended, not what is the matter with the next one.
func TestTheHistorySaysWhyItEnded(t *testing.T) {
	j := &journal{}
	w := newWorld(t, j).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	w.offer("two trap")
	w.until(rollout.Serving)
	if err := w.command(rollout.CommandPause, ""); err != nil {
		t.Fatal(err)
	}
	w.offer("three")
	w.until(rollout.Held)
	w.ask(4)
	j.await(func(r rollout.Record) bool { return len(r.History) == 3 })
	if h := j.read().History; h[1].Why != rollout.ReasonErrorBudget {
		t.Errorf("%+v", h[1])
	}
}

// However many went back, what was kept is still known as kept.
func TestWhatWasKeptIsKnownAfterManyRollbacks(t *testing.T) {
	j := &journal{}
	w := newWorld(t, j).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	for i := range rollout.MaxHistory {
		w.Offer(moduleBundle(t, fmt.Sprint("m", i), fmt.Sprint("trap ", i)), nil)
		w.breaks()
	}
	w.stop()
	if now := j.read().History[0]; now.Revision != "one" || now.Kept.IsZero() {
		t.Errorf("%+v", now)
	}
}

// What failed by itself stays out after a restart, also where the same module
// serves with a configuration with which it was kept.
func TestARestartKeepsWhatFailedOut(t *testing.T) {
	j := &journal{}
	w := newWorld(t, j).run(true)
	offer := func(module, config string) { w.Offer(moduleBundle(t, module, config), nil) }
	keep := func(module, config string) {
		offer(module, config)
		w.until(rollout.Serving)
		w.pass(2 * time.Minute)
		w.until(rollout.Kept)
	}
	offer("n", "fine")
	w.until(rollout.Kept)
	keep("m", "one")
	offer("n", "trap")
	w.breaks()
	keep("n", "fine")
	offer("n", "trap")
	w.until(rollout.RolledBack)
	w.serves("fine")
	w.stop()

	w = newWorld(t, j).run(true)
	w.until(rollout.Kept)
	offer("n", "trap")
	if got := w.untilEither(rollout.RolledBack, rollout.Serving); got.Phase != rollout.RolledBack {
		t.Errorf("phase %s", got.Phase)
	}
	w.serves("fine")
}

// On another engine it is another generation: proven before it serves.
func TestAnotherEngineIsProvenBeforeItServes(t *testing.T) {
	w := newWorld(t, &journal{}).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	w.evidence.Store(&rollout.Evidence{Questions: 1, Failure: "it trapped"})
	w.terms(onWasmtime)
	got := w.untilEither(rollout.Rejected, rollout.Serving)
	if got.Phase != rollout.Rejected || got.Reason != rollout.ReasonRehearsalFailed {
		t.Errorf("phase %s, reason %s", got.Phase, got.Reason)
	}
	if got.Serving.Engine == "wasmtime" {
		t.Error("it serves")
	}
}

// A clock that was ahead does not have it observed for a day.
func TestAClockThatWasAheadDoesNotProlongTheObservation(t *testing.T) {
	j := remembering(bundle(t, "two"), bundle(t, "one"))
	j.record.Saved[0].Kept = false
	w := newWorld(t, j)
	two := v1alpha1.Module{Revision: "two", Digest: bundle(t, "two").ModuleDigest()}
	j.record.History = []rollout.Served{{Module: two, Generation: 7, From: w.clock.Now().Add(24 * time.Hour)}}
	w.run(true)
	w.offer("two")
	for w.slot.Serving() == nil {
		runtime.Gosched()
	}
	w.pass(2 * time.Minute)
	w.until(rollout.Kept)
	w.serves("two")
}

// That the source could not be read when the manager began is nobody's wish.
func TestASourceThatIsNotReadYetHeldNothingElse(t *testing.T) {
	for _, taken := range []bool{true, false} {
		j := &journal{}
		w := newWorld(t, j).run(true)
		w.offer("one")
		w.until(rollout.Kept)
		w.keeps("two")
		if err := w.command(rollout.CommandRollback, ""); err != nil {
			t.Fatal(err)
		}
		w.until(rollout.RolledBack)
		w.stop()

		w = newWorld(t, j).run(true)
		w.until(rollout.Kept)
		w.Offer(source.Bundle{}, &source.Error{Reason: source.ReasonPullHeld, Err: errors.New("the mark of the image is not written")})
		if taken {
			w.until(rollout.Rejected)
		}
		w.offer("two")
		if got := w.untilEither(rollout.RolledBack, rollout.Serving); got.Phase != rollout.RolledBack {
			t.Errorf("taken %t: phase %s", taken, got.Phase)
		}
		w.serves("one")
	}
}
