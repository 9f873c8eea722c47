package brake_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/brake"
)

// Each Node that waits for a permit is told when it goes itself, and it goes then.
func TestEachNodeIsToldItsOwnTime(t *testing.T) {
	for _, test := range []struct{ size, gone, wait int }{{100, 50, 40}, {10, 9, 6}, {2, 1, 0}, {300, 200, 170}} {
		c := newCluster(t, test.size, test.gone)
		c.change(0, test.gone, func(n *corev1.Node) { // the last one is missing for the longest time
			n.Status.Conditions[0].LastTransitionTime.Time = c.clock.Now().Add(-time.Duration(n.Name[3]) * time.Minute)
		})
		c.rounds(time.Minute)
		first, told := len(c.deleted), map[string]time.Time{}
		var times []time.Time
		for name, hold := range c.read {
			told[name] = hold.Until
			times = append(times, hold.Until)
			if !strings.HasSuffix(hold.Message, " "+hold.Until.UTC().Format(time.RFC3339)) || hold.Reason != brake.ReasonNoPermit {
				t.Errorf("%s is told %+v", name, hold)
			}
		}
		slices.SortFunc(times, time.Time.Compare)
		if len(slices.CompactFunc(times, time.Time.Equal)) != test.wait {
			t.Errorf("%+v: told are %v", test, times)
		}
		for last := first; len(told) > 0 && len(c.deleted) < test.gone; {
			c.round()
			for _, name := range c.deleted[last:] {
				if late := c.clock.Since(told[name]); late.Abs() > 90*time.Second {
					t.Errorf("%+v: %s goes %v later than it was told, at %v", test, name, late, told[name])
				}
			}
			last = len(c.deleted)
			c.clock.Step(5 * time.Second)
			if c.clock.Since(times[0]) > 48*time.Hour {
				t.Fatalf("%+v: %d are deleted", test, last)
			}
		}
		if c.events > test.wait+1 {
			t.Errorf("%+v: %d Events", test, c.events)
		}
	}
}

// What is told by an Event is what is said to whoever asks, at any time: also when
// what was told has become wrong.
func TestWhatIsToldIsWhatIsSaid(t *testing.T) {
	c := newCluster(t, 100, 50)
	same := func(when string) {
		t.Helper()
		for n := range 50 {
			name := fmt.Sprintf("n%03d", n)
			if _, ok, _ := c.nodes.GetByKey(name); !ok {
				continue
			}
			if held := c.Look(c.node(name)); !held.Until.Equal(c.read[name].Until) || held.Until.IsZero() {
				t.Errorf("%s: %s is told %v, and said is %v", when, name, c.read[name].Until, held.Until)
			}
		}
	}
	c.rounds(time.Minute)
	same("at first")
	before, events := c.read["n049"].Until, c.events
	c.rounds(20 * time.Minute)
	same("later")
	if c.events != events {
		t.Errorf("%d Events more, and nothing has changed", c.events-events)
	}
	c.instances.fresh = func(string) (bool, error) { return true, nil } // no permits for a while
	c.rounds(10 * time.Minute)
	c.instances.fresh = c.instances.exists
	c.rounds(time.Minute)
	same("after a contradiction")
	if after := c.read["n049"].Until; after.Sub(before) < 20*time.Minute {
		t.Errorf("the last one was told %v, and is told %v", before, after)
	}
	if c.events > 5*events {
		t.Errorf("%d Events of 40 Nodes", c.events)
	}
}

// Who could not be told is told later.
func TestWhoCannotBeToldIsToldLater(t *testing.T) {
	c := newCluster(t, 100, 50)
	c.busy = true
	c.rounds(time.Minute)
	if c.count("NoPermit") != 40 || len(c.read) != 0 {
		t.Errorf("told %q and %v", c.told, c.read)
	}
	c.busy = false
	c.rounds(time.Minute)
	if c.count("NoPermit") != 40 || len(c.read) != 40 {
		t.Errorf("told are %d of 40", len(c.read))
	}
}

// A Node with a long grace period stands in the line, and keeps nobody waiting.
func TestAGracePeriodInTheLine(t *testing.T) {
	c := newCluster(t, 100, 50)
	c.change(0, 1, func(n *corev1.Node) {
		n.Annotations = map[string]string{brake.GracePeriodAnnotation: "10h"}
		n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(c.clock.Now().Add(-time.Hour))
	})
	c.rounds(time.Minute)
	if first := c.Look(c.node("n011")).Until.Sub(c.clock.Now()); first > 4*time.Minute || len(c.read) != 39 {
		t.Errorf("the first is to go in %v, %d were told", first, len(c.read))
	}
	if own := c.Look(c.node("n000")); own.Reason != brake.ReasonGrace || own.Until.Sub(c.clock.Now()) < 9*time.Hour {
		t.Errorf("it is told %+v", own)
	}
}
