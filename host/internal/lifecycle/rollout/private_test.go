package rollout_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// A configuration that moves into a Secret as it is leaves no copy that a restart
// would begin with, whatever becomes of the offer.
func TestAConfigurationThatBecomesPrivateIsKeptNoLonger(t *testing.T) {
	w := newWorld(t, &journal{}).run(true)
	w.offer("one")
	w.until(rollout.Kept)
	w.journal.await(good("one"))
	if err := w.command(rollout.CommandPause, ""); err != nil {
		t.Fatal(err)
	}
	moved := bundle(t, "one")
	moved.ConfigPrivate, moved.Revision = true, "one, from a Secret"
	w.Offer(moved, nil)
	w.until(rollout.Held)
	w.journal.await(func(rollout.Record) bool { return w.journal.bundles["one"].ConfigPrivate })
	w.serves("one")
}

func TestNoDigestOfAPrivateConfigurationIsReported(t *testing.T) {
	for _, private := range []bool{true, false} {
		w := newWorld(t, &journal{}).run(true)
		b := bundle(t, "one")
		b.ConfigPrivate = private
		w.Offer(b, nil)
		got := w.until(rollout.Kept)
		w.journal.await(good("one"))
		for what, v := range map[string]*v1alpha1.Module{"offered": got.Offered, "serving": got.Serving, "good": got.Good, "recorded": &w.journal.read().Saved[0].Module} {
			if v == nil || (v.ConfigDigest == "") != private {
				t.Errorf("private %v: %s is %+v", private, what, v)
			}
		}
		w.stop()
	}
}

// The next leader begins with what was kept before the move, and does not keep it
// any longer either.
func TestTheNextLeaderKeepsNoConfigurationThatBecamePrivate(t *testing.T) {
	kept := bundle(t, "one")
	w := newWorld(t, remembering(kept)).run(false)
	w.until(rollout.Kept)
	moved := bundle(t, "one")
	moved.ConfigPrivate, moved.Revision = true, "one, from a Secret"
	w.Offer(moved, nil)
	w.until(rollout.Probed)
	w.Lead()
	w.journal.await(func(rollout.Record) bool { return w.journal.bundles["one"].ConfigPrivate })
}

// A private configuration is kept nowhere, and a module without its own would
// say that there are no machines: what the source holds is waited for.
func TestARestartWaitsForAPrivateConfiguration(t *testing.T) {
	kept := bundle(t, "one")
	kept.Config, kept.ConfigPrivate = nil, true
	for _, lead := range []bool{true, false} {
		j := remembering(kept)
		w := newWorld(t, j).run(lead)
		select {
		case err := <-w.reporter.journal:
			if !strings.Contains(err.Error(), "private") {
				t.Errorf("it is told otherwise: %v", err)
			}
		case got := <-w.reporter.reports:
			t.Fatalf("%s: the module serves without its configuration", got.Phase)
		}
		if !lead {
			w.Lead()
		}
		w.offer("one")
		w.until(rollout.Serving)
		w.serves("one")
		w.stop()
	}
}

// An older configuration, which is public, may be of another cloud: it serves
// only when the source says nothing for long.
func TestARestartWaitsForAPrivateConfigurationBeforeAnOlderOne(t *testing.T) {
	kept, older := bundle(t, "one"), bundle(t, "older")
	kept.Config, kept.ConfigPrivate = nil, true
	for _, away := range []bool{false, true} {
		w := newWorld(t, remembering(kept, older)).run(true)
		for range 2 { // when it begins, and when it leads
			if err := <-w.reporter.journal; !strings.Contains(err.Error(), "private") {
				t.Errorf("it is told otherwise: %v", err)
			}
		}
		if w.slot.Serving() != nil {
			t.Error("an older one serves")
		}
		if away {
			for len(w.reporter.reports) == 0 { // the first wait may be over before the second begins
				w.clock.Step(time.Minute)
				runtime.Gosched()
			}
			w.until(rollout.Kept)
			w.serves("older")
		} else {
			w.offer("one")
			w.until(rollout.Serving)
			w.serves("one")
		}
		w.stop()
	}
}
