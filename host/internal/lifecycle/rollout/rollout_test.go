package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/compile"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

func TestEveryPhaseIsReported(t *testing.T) {
	w := newWorld(t, nil).run(true)
	w.offer("one")
	for _, p := range []rollout.Phase{rollout.Loading, rollout.Verified, rollout.Compiled, rollout.Described, rollout.Configured, rollout.Probed, rollout.Shadowed, rollout.Serving, rollout.Kept} {
		if got := <-w.reporter.reports; got.Phase != p {
			t.Fatalf("phase %s, want %s", got.Phase, p)
		}
	}
	w.offer("two")
	if got := w.until(rollout.Shadowed); got.Message != "all the same" || got.Serving == nil || got.Candidate == nil || got.Serving.Revision != "one+h1" {
		t.Errorf("report %+v", got)
	}
	got := w.until(rollout.Serving)
	if got.Generation != 2 || got.Good.Revision != "one+h1" || got.Serving.Revision != "two+h1" {
		t.Errorf("report %+v", got)
	}
	w.serves("two")
	w.pass(2 * time.Minute)
	w.until(rollout.Kept)
}

func TestBadOffersChangeNothingAndAreReported(t *testing.T) {
	w := newWorld(t, nil).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	w.Offer(source.Bundle{}, &source.Error{Reason: source.ReasonConfigMapNotFound, Err: errors.New("gone")})
	if got := w.until(rollout.Rejected); got.Reason != source.ReasonConfigMapNotFound {
		t.Errorf("report %+v", got)
	}
	w.Offer(source.Bundle{Module: []byte("nonsense"), Revision: "x"}, nil)
	if got := w.until(rollout.Rejected); got.Reason != module.ReasonModuleInvalid {
		t.Errorf("report %+v", got)
	}
	w.serves("one")
	w.offer("one")
	w.until(rollout.Kept) // what was said of the bad one is over
	if w.clock.HasWaiters() {
		t.Error("a bad module is tried again")
	}
}

func TestFailedProbesAreTriedAgain(t *testing.T) {
	w := newWorld(t, nil).run(true)
	w.away.Store(true)
	w.offer("no-probe")
	for range 2 {
		if got := w.until(rollout.Rejected); got.Reason != "ProbeFailed" {
			t.Fatalf("report %+v", got)
		}
		w.pass(10 * time.Second)
	}
	w.until(rollout.Rejected)
	w.away.Store(false)
	w.pass(time.Minute)
	w.until(rollout.Kept)
	w.serves("no-probe")
}

// fullDisk is a compiler without room while full is set.
type fullDisk struct{ full atomic.Bool }

func (d *fullDisk) Prepare(context.Context, compile.Job) ([]byte, error) {
	if d.full.Load() {
		return nil, fmt.Errorf("compiling apart: %w", &fs.PathError{Op: "write", Path: "/cache", Err: syscall.ENOSPC})
	}
	return nil, nil
}

// A disk that was full says nothing of the module.
func TestAFullDiskIsTriedAgain(t *testing.T) {
	w, disk := newWorld(t, nil), &fullDisk{}
	w.loader.Compiler = disk
	w.run(true)
	w.offer("one")
	w.until(rollout.Kept)
	disk.full.Store(true)
	w.offer("two")
	for range 2 {
		if got := w.until(rollout.Rejected); got.Reason != "CompileFailed" || !strings.Contains(got.Message, "no space left on device") {
			t.Fatalf("report %+v", got)
		}
		w.serves("one")
		w.pass(10 * time.Second)
	}
	w.until(rollout.Rejected)
	disk.full.Store(false)
	w.pass(time.Minute)
	w.until(rollout.Serving)
	w.serves("two")
}

func TestOneThatTrapsIsRolledBackAndStaysOut(t *testing.T) {
	w := newWorld(t, &journal{}).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	good := w.slot.Serving()
	w.offer("trap")
	w.until(rollout.Serving)
	if n := w.ask(4); n != 4 {
		t.Fatalf("%d of 4 ops failed", n)
	}
	got := w.until(rollout.RolledBack)
	if !strings.Contains(got.Message, "4 of 4 ops failed") || !strings.Contains(got.Message, "unreachable") {
		t.Errorf("message %q", got.Message)
	}
	if w.slot.Serving() != good {
		t.Error("the generation before was not warm")
	}
	if n := w.ask(10); n != 0 {
		t.Errorf("%d ops failed after the way back", n)
	}
	w.offer("one")
	w.until(rollout.Kept)
	w.offer("trap")
	w.until(rollout.RolledBack)
	w.serves("one")
	if err := w.command(rollout.CommandPromote, "true"); err != nil {
		t.Error(err)
	}
	w.until(rollout.Kept)
	w.serves("trap")
}

func TestAFewFailuresAreForgiven(t *testing.T) {
	b := rollout.Budget{Failures: 3, Percent: 5}
	for _, test := range []struct {
		now, before plugin.Tally
		want        bool
	}{
		{plugin.Tally{Ops: 3, Failures: 3}, plugin.Tally{}, false},
		{plugin.Tally{Ops: 4, Failures: 4}, plugin.Tally{}, true},
		{plugin.Tally{Ops: 100, Failures: 5}, plugin.Tally{}, false},
		{plugin.Tally{Ops: 100, Failures: 6}, plugin.Tally{}, true},
		{plugin.Tally{Ops: 10, Failures: 10}, plugin.Tally{Ops: 256, Failures: 250}, false}, // the cloud is away
	} {
		if got := rollout.Exceeded(b, test.now, test.before); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

func TestDifferencesHoldUntilPromoted(t *testing.T) {
	j := &journal{}
	w := newWorld(t, j).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	w.evidence.Store(&rollout.Evidence{Differs: "zone: a -> b"})
	two := moduleBundle(t, "another", "two")
	w.Offer(two, nil)
	if got := w.until(rollout.Held); got.Reason != rollout.ReasonShadowDiffers || got.Message != "zone: a -> b" {
		t.Errorf("report %+v", got)
	}
	w.serves("one")
	if err := w.command(rollout.CommandPromote, "sha256:00000000"); err == nil {
		t.Error("another digest was promoted")
	}
	if err := w.command(rollout.CommandPromote, "sha256:"+(plugin.Bundle{Module: two.Module}).Digests().Module[:12]); err != nil {
		t.Error(err)
	}
	w.until(rollout.Kept)
	w.serves("two")
	if err := w.command(rollout.CommandRollback, ""); err != nil {
		t.Error(err)
	}
	if got := w.until(rollout.RolledBack); got.Reason != rollout.ReasonByOperator {
		t.Errorf("report %+v", got)
	}
	w.serves("one")
	if err := w.command(rollout.CommandRollback, ""); err == nil {
		t.Error("there is nothing more in reserve")
	}
}

func TestPauseHolds(t *testing.T) {
	w := newWorld(t, nil).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	if err := w.command(rollout.CommandPause, ""); err != nil {
		t.Error(err)
	}
	w.offer("two")
	if got := w.until(rollout.Held); got.Reason != rollout.ReasonPaused || !got.Paused {
		t.Errorf("report %+v", got)
	}
	w.serves("one")
	if err := w.command(rollout.CommandResume, ""); err != nil {
		t.Error(err)
	}
	w.until(rollout.Serving)
	w.serves("two")
}

// A pause holds versions. A password that the administrator has changed must
// come through: the cloud may take the one before no more.
func TestAPauseHoldsNoPassword(t *testing.T) {
	w := newWorld(t, nil).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	if err := w.command(rollout.CommandPause, ""); err != nil {
		t.Error(err)
	}
	before := w.slot.Serving()
	w.terms("h2")
	w.until(rollout.Serving)
	w.serves("one")
	if w.slot.Serving() == before {
		t.Error("what serves was not loaded again")
	}
}

// It comes through also while the source offers what is refused or held, or
// nothing: what serves gets it, and the offer stays where it was.
func TestAPasswordReachesWhatServes(t *testing.T) {
	for name, test := range map[string]struct {
		offer func(*world)
		phase rollout.Phase
	}{
		"held":    {func(w *world) { w.offer("two") }, rollout.Held},
		"nothing": {func(w *world) { w.Offer(source.Bundle{}, errors.New("there is no ConfigMap")) }, rollout.Rejected},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil).run(true)
			w.offer("one")
			w.until(rollout.Kept)
			if err := w.command(rollout.CommandPause, ""); err != nil {
				t.Error(err)
			}
			test.offer(w)
			w.until(test.phase)
			before := w.slot.Serving()
			w.terms("h2")
			if got := w.until(rollout.Serving); got.Serving.Revision != "one+h2" {
				t.Errorf("serving %+v", got.Serving)
			}
			if got := w.until(test.phase); got.Serving.Revision != "one+h2" {
				t.Errorf("serving %+v", got.Serving)
			}
			w.serves("one")
			if w.slot.Serving() == before {
				t.Error("what serves was not loaded again")
			}
		})
	}
}

func TestAChangeOfTheAdministratorIsAGeneration(t *testing.T) {
	w := newWorld(t, nil).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	before := w.slot.Serving()
	w.Reload() // nothing has changed
	w.until(rollout.Kept)
	if w.slot.Serving() != before {
		t.Error("the same was loaded again")
	}
	w.terms("h2")
	if got := w.until(rollout.Serving); got.Serving.Revision != "one+h2" {
		t.Errorf("report %+v", got)
	}
}

func TestARestartBeginsWithWhatWasKept(t *testing.T) {
	j := &journal{}
	w := newWorld(t, j).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	w.offer("trap")
	w.breaks()
	w.offer("two")
	w.until(rollout.Serving) // and before it is kept,
	j.await(func(r rollout.Record) bool { return r.Generation == 4 })
	w.stop()

	w = newWorld(t, j).run(true)
	w.until(rollout.Serving) // its observation goes on
	w.serves("two")
	w.offer("trap")
	if got := w.until(rollout.RolledBack); got.Reason != rollout.ReasonErrorBudget {
		t.Errorf("report %+v", got)
	}
	w.offer("two")
	if got := w.until(rollout.Serving); got.Generation <= 3 {
		t.Errorf("the generations are counted afresh: %d", got.Generation)
	}
	w.pass(time.Hour)
	w.until(rollout.Kept)
	w.serves("two")
}

// What the source holds may have been refused: as long as the record may yet
// be read, nothing else serves.
func TestARestartWaitsForItsRecord(t *testing.T) {
	one := bundle(t, "one")
	j := remembering(one)
	j.unread = []error{errors.New("the API server is away")}
	j.record.Refused = []rollout.Refusal{{Revision: rollout.ParseRevision("", "two+h1"), Phase: rollout.Held}}
	w := newWorld(t, j).run(true)
	w.offer("two")
	if err := <-w.reporter.journal; !strings.Contains(err.Error(), "is repeated") {
		t.Error(err)
	}
	w.pass(time.Minute)
	w.until(rollout.Held)
	w.serves("one")

	j = &journal{unread: []error{fmt.Errorf("%w: it is damaged", rollout.ErrNoRecord)}}
	w = newWorld(t, j).run(true)
	w.offer("two")
	w.until(rollout.Kept)
	w.serves("two")
}

func TestTheJournalIsWrittenInTheEnd(t *testing.T) {
	j := &journal{fail: 2}
	w := newWorld(t, j).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	if err := <-w.reporter.journal; !strings.Contains(err.Error(), "away") {
		t.Error(err)
	}
	for {
		j.mu.Lock()
		kept := good("one")(j.record)
		j.mu.Unlock()
		if kept {
			return
		}
		w.clock.Step(time.Minute)
		runtime.Gosched()
	}
}

func TestAStandbyIsReadyAndDecidesNothing(t *testing.T) {
	j := remembering(bundle(t, "one"))
	w := newWorld(t, j).run(false)
	w.until(rollout.Kept)
	w.offer("two")
	if got := w.until(rollout.Probed); got.Reason != rollout.ReasonStandby {
		t.Errorf("report %+v", got)
	}
	w.serves("one")
	j.keep(bundle(t, "two")) // the leader does
	w.Lead()
	if got := w.until(rollout.Kept); got.Generation != 7 || got.Serving.Revision != "two+h1" {
		t.Errorf("report %+v", got)
	}
	w.serves("two")
}

// The cloud, or a password that was rotated, does not let what the leader kept
// pass its probe here. It served, so it serves on: what was kept before it is
// older.
func TestAStandbyServesWhatWasKeptAlsoWhereItCannotBeProbed(t *testing.T) {
	j := remembering(bundle(t, "one"))
	w := newWorld(t, j)
	w.away.Store(true)
	w.run(false)
	w.until(rollout.Kept)
	w.offer("two no-probe")
	w.until(rollout.Rejected)
	w.serves("one")
	j.keep(bundle(t, "two no-probe")) // the leader did
	w.Lead()
	w.until(rollout.Kept)
	w.serves("two no-probe")
}

func TestAStandbyWhoseLeaderWentElsewhere(t *testing.T) {
	j := remembering()
	w := newWorld(t, j).run(false)
	w.offer("one")
	w.until(rollout.Serving)
	j.keep(bundle(t, "three"))
	j.record.Refused = []rollout.Refusal{{Revision: rollout.ParseRevision("", "one+h1"), Phase: rollout.RolledBack}}
	w.Lead()
	w.until(rollout.RolledBack)
	w.serves("three")
}

func TestNewerOffersReplaceOlderOnes(t *testing.T) {
	w := newWorld(t, nil).run(true)
	for range 200 {
		w.offer("one")
		w.offer("two")
	}
	w.offer("last")
	for {
		if got := w.until(rollout.Serving); got.Serving.Revision == "last+h1" {
			break
		}
	}
	w.serves("last")
}
