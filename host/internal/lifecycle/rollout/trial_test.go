package rollout_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// trials say what they are told by verdict, and remember what happened.
type trials struct {
	mu      sync.Mutex
	verdict func(revision string, s trial.Standing) error
	events  []string
	changed chan struct{}
}

func (t *trials) Begin(_ context.Context, b source.Bundle, _ string, s trial.Standing) (rollout.Trial, error) {
	t.mu.Lock()
	verdict := t.verdict
	t.mu.Unlock()
	if verdict != nil {
		if err := verdict(b.Revision, s); err != nil {
			return nil, err
		}
	}
	t.add("begin " + b.Revision)
	return func(p rollout.Phase) { t.add(b.Revision + " " + string(p)) }, nil
}

func (t *trials) set(verdict func(string, trial.Standing) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.verdict = verdict
}

func (t *trials) add(event string) {
	t.mu.Lock()
	t.events = append(t.events, event)
	t.mu.Unlock()
	t.changed <- struct{}{}
}

// seen is what happened so far.
func (t *trials) seen() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.events)
}

// await waits for an event.
func (t *trials) await(event string) {
	for {
		if slices.Contains(t.seen(), event) {
			return
		}
		<-t.changed
	}
}

func withTrials(t *testing.T, j *journal) (*world, *trials) {
	w := newWorld(t, j)
	w.trials = &trials{changed: make(chan struct{}, 1000)}
	return w, w.trials
}

func TestNothingIsLoadedBeforeItIsWrittenDown(t *testing.T) {
	w, trials := withTrials(t, &journal{})
	w.run(true)
	w.offer("one")
	w.until(rollout.Kept)
	trials.await("one Kept")
	if want := []string{"begin one", "one Verified", "one Compiled", "one Described", "one Configured", "one Probed", "one Serving", "one Kept"}; !slices.Equal(trials.seen(), want) {
		t.Errorf("events %q, want %q", trials.seen(), want)
	}
	trials.set(func(string, trial.Standing) error {
		return &plugin.LoadError{Phase: "mark", Reason: "NotMarked", Err: errors.New("the API server is away")}
	})
	w.offer("two")
	if got := w.until(rollout.Rejected); !strings.Contains(got.Message, "away") {
		t.Errorf("report %+v", got)
	}
	w.serves("one")
}

func TestWhatIsRejectedIsStruckOut(t *testing.T) {
	w, trials := withTrials(t, nil)
	w.run(true)
	w.Offer(source.Bundle{Module: []byte("nonsense"), Revision: "x"}, nil)
	w.until(rollout.Rejected)
	trials.await("x Ended")
	w.offer("one")
	w.until(rollout.Kept)
	w.offer("trap")
	w.breaks()
	trials.await("trap Ended") // when its last op has ended
}

func TestASuspectIsLoadedWhenAPersonWantsIt(t *testing.T) {
	w, trials := withTrials(t, &journal{})
	w.run(true)
	w.offer("one")
	w.until(rollout.Kept)
	trials.set(func(_ string, s trial.Standing) error {
		if s == trial.Pardoned {
			return nil
		}
		return &trial.Suspect{Words: "it ended the manager"}
	})
	w.offer("two")
	if got := w.until(rollout.Rejected); got.Reason != rollout.ReasonModuleSuspected || !strings.Contains(got.Message, "it ended the manager") || got.Serving.Revision != "one+h1" {
		t.Errorf("report %+v", got)
	}
	w.terms("h2") // another password makes it no better
	if got := w.until(rollout.Rejected); got.Reason != rollout.ReasonModuleSuspected {
		t.Errorf("report %+v", got)
	}
	if err := w.command(rollout.CommandPromote, "sha256:00000000"); err == nil {
		t.Error("another digest was promoted")
	}
	// The offer's rejection may be told twice, so the reload may still be on its
	// way. It is judged then as if nobody had promoted it: one does it again.
	digest := (plugin.Bundle{Module: bundle(t, "").Module}).Digests().Module[:12]
	for try := 1; ; try++ {
		if err := w.command(rollout.CommandPromote, digest); err != nil && try == 1 {
			t.Error(err)
		}
		if w.untilEither(rollout.Serving, rollout.Rejected).Phase == rollout.Serving {
			break
		}
		if try == 5 {
			t.Fatal("it is rejected although a person wants it")
		}
	}
	w.serves("two")
}

func TestAStandbyWaitsUntilTheLeaderHasPassedIt(t *testing.T) {
	one := bundle(t, "one")
	j := remembering(one)
	w, trials := withTrials(t, j)
	trials.verdict = func(_ string, s trial.Standing) error {
		if s == trial.Standby {
			return &trial.Busy{}
		}
		return nil
	}
	w.run(false)
	w.until(rollout.Kept)
	w.offer("two")
	if got := w.until(rollout.Waiting); got.Reason != rollout.ReasonStandby || !strings.Contains(got.Message, "waiting for another manager") {
		t.Errorf("report %+v", got)
	}
	w.serves("one")
	trials.set(nil)
	w.pass(time.Minute)
	if got := w.until(rollout.Probed); got.Reason != rollout.ReasonStandby {
		t.Errorf("report %+v", got)
	}
}

func TestAManagerThatLeadsWaitsNoMore(t *testing.T) {
	w, trials := withTrials(t, nil)
	trials.verdict = func(_ string, s trial.Standing) error {
		if s == trial.Standby {
			return &trial.Busy{}
		}
		return nil
	}
	w.run(false)
	w.offer("one")
	if w.until(rollout.Waiting); !w.Waits() {
		t.Error("it does not wait")
	}
	w.Lead()
	w.until(rollout.Kept)
	w.serves("one")
	if w.Waits() {
		t.Error("it waits still")
	}
}

// What was kept must serve after a restart, also when nothing can be written;
// but not when it ended the manager again and again.
func TestWhatWasKeptIsTrusted(t *testing.T) {
	one := bundle(t, "one")
	w, trials := withTrials(t, remembering(one))
	trials.verdict = func(string, trial.Standing) error { return errors.New("forbidden") }
	w.run(false)
	w.until(rollout.Kept)
	w.serves("one")
	if err := <-w.reporter.journal; !strings.Contains(err.Error(), "forbidden") {
		t.Error(err)
	}

	w, trials = withTrials(t, remembering(one))
	trials.verdict = func(string, trial.Standing) error {
		return &trial.Suspect{Words: "three times"}
	}
	w.run(true)
	w.offer("one")
	if got := w.until(rollout.Rejected); got.Reason != rollout.ReasonModuleSuspected || w.slot.Serving() != nil {
		t.Errorf("report %+v", got)
	}
	found := w.clock.Now()
	trials.set(func(string, trial.Standing) error {
		return &trial.Suspect{Ends: trial.MostEnds, Found: found}
	})
	w.offer("three")
	w.until(rollout.Rejected)
	trials.set(nil)
	w.pass(59 * time.Minute)
	if w.slot.Serving() != nil {
		t.Error("a suspect serves before its time is over")
	}
	w.pass(time.Hour) // it may have begun to wait only now
	w.until(rollout.Kept)
	w.serves("three")
	w.offer("two")
	w.until(rollout.Serving)
	w.serves("two")
}
