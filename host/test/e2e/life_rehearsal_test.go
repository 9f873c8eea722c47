package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestATrapIsFoundInQuiet offers a module that panics whenever it is asked about
// an instance, while nobody asks: what the good one was asked before is
// forgotten, and no object changes. It does not serve.
func TestATrapIsFoundInQuiet(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	t.Parallel() // it has a control plane of its own
	l := newLife(t, "quiet", "{observePeriod: 10s}")
	l.settle(t)
	for _, name := range []string{"one", "two"} {
		build := l.variant(t, name)
		l.offer(t, build)
		l.serves(t, build)
		l.ccmctl(t, "rollout", "rollback", "a")
		l.serves(t, l.good)
	}
	trap := l.variant(t, "trap", "metadata=trap")
	l.offer(t, trap)
	v, took := l.awaitRefused(t, trap)
	t.Logf("%v after %v", v, took)
	if v.Phase != "Rejected" || v.Reason != "RehearsalFailed" || !v.serving(l.good) {
		t.Fatalf("%v, serving %s", v, v.Serving.Digest)
	}
	l.namesThePromotion(t, trap)
	l.initialises(t, "later")
}

// badModules are what is never kept, however quiet the cluster is. Each has the
// configuration of the good one.
func badModules() []badModule {
	return []badModule{
		{"panics", "metadata=trap", "Rejected", "RehearsalFailed"},
		{"hangs", "metadata=hang", "Rejected", "RehearsalFailed"},
		{"lies", "zone=z2", "Held", "ShadowDiffers"},
		{"answers nothing", "metadata=empty", "Rejected", "RehearsalFailed"},
		{"is slow", "metadata=busy:6s", "Held", "ShadowDiffers"},
	}
}

// badModule is one, with what becomes of it.
type badModule struct{ name, line, phase, reason string }

// TestNoBadModuleIsKept offers bad modules to a cluster that nobody touches, with
// the default rollout.
func TestNoBadModuleIsKept(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	t.Parallel() // it has a control plane of its own
	l := newLife(t, "bad", "{}")
	l.settle(t)
	account := l.cloud.account("a")
	account.mark()
	for _, bad := range badModules() {
		t.Run(bad.name, func(t *testing.T) {
			module := l.variant(t, bad.name, bad.line)
			l.offer(t, module)
			v, took := l.awaitRefused(t, module)
			t.Logf("a module that %s: %s %s after %.1f s: %s", bad.name, v.Phase, v.Reason, took.Seconds(), v.Message)
			if v.Phase != bad.phase || v.Reason != bad.reason {
				t.Errorf("%s %s, want %s %s", v.Phase, v.Reason, bad.phase, bad.reason)
			}
			if v.serving(module) { // for what follows
				l.ccmctl(t, "rollout", "rollback", "a")
			}
			l.serves(t, l.good)
		})
	}
	if lines := account.writtenSinceMark(); lines != "" {
		t.Errorf("written at the cloud:\n%s", lines)
	}
	l.initialises(t, "later")
}

// TestKeptSaysHow: the status of a module that was kept says of how many calls and
// questions, or that there was nothing to ask about.
func TestKeptSaysHow(t *testing.T) {
	l := newLife(t, "proven", "{observePeriod: 1s}")
	l.offer(t, l.good)
	l.begin(t)
	first := l.awaitPhase(t, l.good, "Kept")
	if words := strings.ToLower(first.Message); !strings.Contains(words, "node") || !strings.Contains(words, "service") || !strings.Contains(words, "no") {
		t.Errorf("without any object it says %q", first.Message)
	}
	l.furnish(t)
	l.inOrder(t)
	next := l.variant(t, "next")
	l.offer(t, next)
	if second := l.awaitPhase(t, next, "Kept"); !proven.MatchString(second.Message) {
		t.Errorf("with objects it says %q, want %s", second.Message, proven)
	}
}

// TestAnIntendedChangeIsNoWarning changes the configuration alone. The answers that
// differ are named, and it serves.
func TestAnIntendedChangeIsNoWarning(t *testing.T) {
	l := newLife(t, "intended", "{observePeriod: 1s}")
	l.offer(t, l.good)
	l.begin(t)
	l.serves(t, l.good)
	l.furnish(t)
	l.inOrder(t)
	l.config += "\nzone=z2"
	l.offer(t, l.good)
	l.until(t.Context(), t, l.m, "the second generation is kept", func() (bool, string) {
		v := l.verdict(t)
		return v.Phase == "Kept" && v.Generation == 2, v.String()
	})
	named := false
	for line := range strings.Lines(l.events(t)) {
		named = named || strings.HasPrefix(line, "Normal ") && strings.Contains(line, "z1") && strings.Contains(line, "z2")
		if strings.HasPrefix(line, "Warning Provider") {
			t.Error(line)
		}
	}
	if !named {
		t.Errorf("no Event names what differs:\n%s", l.events(t))
	}
}

// mostQuestions is how many requests of a rehearsal a cloud of three machines and
// two load balancers has to bear.
const mostQuestions = 64

// TestARehearsalWritesNothing counts what hostile modules send to the cloud before
// they serve: the first one that a cluster has, and one after a good one. They
// write in ops that only read. Questions get through, and no write.
func TestARehearsalWritesNothing(t *testing.T) {
	for name, hostile := range map[string]struct {
		after bool // a good one, whose manager was restarted: nothing is on record but what it asks then
		lines []string
		phase string
	}{
		"the first module": {false, []string{"sneak=on", "metadata=trap"}, "Rejected"},
		"the next module":  {true, []string{"sneak=on", "zone=z2"}, "Held"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, "hostile", "{}")
			if hostile.after {
				l.settle(t)
				ends(t, l.m)
				l.restart(t)
				l.serves(t, l.good)
			} else {
				l.furnish(t)
			}
			module := l.variant(t, "hostile", hostile.lines...)
			account := l.cloud.account("a")
			account.mark()
			before, reads := time.Now(), account.requests()
			l.offer(t, module)
			if !hostile.after {
				l.begin(t)
			}
			v, _ := l.awaitRefused(t, module)
			sent := account.requests() - reads
			t.Logf("%s %s after %.1f s; %d requests for %d Nodes and %d Services", v.Phase, v.Reason, time.Since(before).Seconds(), sent, stillNodes, stillServices)
			if v.Phase != hostile.phase {
				t.Errorf("%v, want %s", v, hostile.phase)
			}
			if lines := account.writtenSinceMark(); lines != "" {
				t.Errorf("written at the cloud:\n%s", lines)
			}
			// The first module traps in its first question, mostly before anything left.
			if sent > mostQuestions || sent == 0 && hostile.after {
				t.Errorf("%d requests, want at most %d, and some of the next module", sent, mostQuestions)
			}
		})
	}
}
