package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestAKeptModuleComesBack offers modules again that were kept before. A person's
// rollback refuses the offer that stands at that moment, and no later one.
func TestAKeptModuleComesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	t.Parallel() // it has a control plane of its own
	l := newLife(t, "return", "{observePeriod: 10s}")
	l.settle(t)
	next := l.variant(t, "next")
	l.offer(t, next)
	l.awaitPhase(t, next, "Kept")
	l.offer(t, l.good)
	l.awaitPhase(t, l.good, "Serving")
	l.ccmctl(t, "rollout", "rollback", "a")
	if v := l.awaitPhase(t, l.good, "RolledBack"); v.Reason != "ByOperator" || !v.serving(next) {
		t.Fatalf("%v, serving %s", v, v.Serving.Digest)
	}
	l.namesThePromotion(t, l.good)

	// Something else is in the source, and then the good one again.
	l.offer(t, next)
	l.awaitPhase(t, next, "Kept")
	l.offer(t, l.good)
	if v := l.awaitPhase(t, l.good, "RolledBack", "Rejected", "Held", "Kept"); v.Phase != "Kept" {
		t.Fatalf("a module that was kept, and is offered again: %v", v)
	}
	// Also to another manager.
	l.offer(t, next)
	l.awaitPhase(t, next, "Serving")
	l.ccmctl(t, "rollout", "rollback", "a")
	l.awaitPhase(t, next, "RolledBack")
	l.offer(t, l.good)
	l.awaitPhase(t, l.good, "Kept")
	l.awaitRecorded(t.Context(), t, l.m, "a", l.good)
	ends(t, l.m)
	l.restart(t)
	l.serves(t, l.good)
	l.offer(t, next)
	if v := l.awaitPhase(t, next, "RolledBack", "Rejected", "Held", "Kept"); v.Phase != "Kept" {
		t.Fatalf("the same after a restart: %v", v)
	}
}

const (
	// mended is from a takeover until what failed before is in order.
	mended = 10 * time.Second
	// reported is from a takeover until nothing tells of the module before.
	reported = 3 * time.Second
	trapText = "as metadata=trap"
)

// TestTheNewOneAsksAtOnce has a Node that the module cannot initialise. Another
// module takes over, and the Node is initialised within seconds; what the one
// before said of it is not told any more.
func TestTheNewOneAsksAtOnce(t *testing.T) {
	l := newLife(t, "mended", "{observePeriod: 1s}")
	bad := l.variant(t, "bad", "metadata=trap-later")
	l.offer(t, bad) // there is no Node that it could be asked about
	l.begin(t)
	l.awaitPhase(t, bad, "Kept")
	l.furnish(t)
	l.inOrder(t)
	ends(t, l.m)
	l.restart(t) // which asks about all Nodes
	l.serves(t, bad)
	l.until(t.Context(), t, l.m, "a Node is stuck", func() (bool, string) {
		pause(t.Context(), interval)
		text := l.ccmctl(t, "why", "node", "node-0")
		return strings.Contains(text, "Stuck") && strings.Contains(text, trapText), text
	})
	l.offer(t, l.good)
	l.serves(t, l.good)
	taken := time.Now()
	l.untilWithin(t.Context(), t, l.m, 2*mended, "the Nodes are in order", func() (bool, string) {
		pause(t.Context(), interval)
		text := l.ccmctl(t, "why", "node", "node-0")
		if strings.Contains(text, trapText) && time.Since(taken) > reported && !t.Failed() {
			t.Errorf("%.1f s after the takeover it is told of the module before:\n%s", time.Since(taken).Seconds(), text)
		}
		return strings.Contains(text, "Done"), text
	})
	l.inOrder(t)
	took := time.Since(taken)
	t.Logf("the Nodes are in order %.1f s after the takeover", took.Seconds())
	if took > mended {
		t.Errorf("it takes %v, want %v at most", took, mended)
	}
	if text := l.ccmctl(t, "status"); strings.Contains(text, trapText) {
		t.Errorf("the status tells of the module before:\n%s", text)
	}
}
