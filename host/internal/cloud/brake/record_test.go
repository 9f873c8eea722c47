package brake_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/brake"
)

func TestARestartForgetsNoPermits(t *testing.T) {
	c := newCluster(t, 100, 90)
	for range 15 { // two minutes each
		c.restart()
		c.rounds(2 * time.Minute)
	}
	if n := len(c.deleted); n < 15 || n > 20 {
		t.Errorf("%d nodes are deleted in half an hour of restarts", n)
	}
}

func TestTheRecord(t *testing.T) {
	t.Run("cannot be read or written", func(t *testing.T) {
		c := newCluster(t, 100, 15)
		c.ledger.fail(errors.New("forbidden"))
		c.rounds(time.Hour)
		c.wantDeleted(0)
		if c.count("record failed true") != 1 || c.count("NoRecord") != 15 {
			t.Errorf("told %q", c.told)
		}
		c.ledger.fail(nil)
		c.rounds(time.Minute)
		c.wantDeleted(10)
		if c.count("record failed false") != 1 {
			t.Errorf("told %q", c.told)
		}
	})
	for name, text := range map[string]string{
		"no JSON": "{", "no time": `{"permits":10}`, "too long": strings.Repeat(" ", 2000), "no number": `{"permits":"ten","at":"2026-01-01T00:00:00Z"}`,
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 100, 15)
			c.ledger.text = text
			c.rounds(time.Minute)
			c.wantDeleted(0)
			if c.count("record failed true") != 1 {
				t.Errorf("told %q", c.told)
			}
			c.rounds(time.Hour)
			c.wantDeleted(15)
		})
	}
	t.Run("of a clock that was a year ahead", func(t *testing.T) {
		c := newCluster(t, 100, 15)
		year := c.clock.Now().AddDate(1, 0, 0).UTC().Format(time.RFC3339)
		c.ledger.text = fmt.Sprintf(`{"permits":0,"at":%q,"distrustedUntil":%q}`, year, year)
		c.rounds(2 * time.Hour)
		c.wantDeleted(15)
	})
	t.Run("is removed", func(t *testing.T) {
		c := newCluster(t, 100, 50)
		c.rounds(time.Minute)
		c.ledger.text = ""
		c.rounds(time.Minute)
		c.wantDeleted(10)
	})
	t.Run("what it promises to hold against a provider it cannot be told", func(t *testing.T) {
		c := newCluster(t, 100, 15)
		c.instances.fresh = func(node string) (bool, error) {
			c.ledger.fail(errors.New("timeout"))
			return true, nil
		}
		c.rounds(time.Minute)
		c.ledger.fail(nil)
		c.instances.fresh = c.instances.exists
		c.rounds(28 * time.Minute)
		c.wantDeleted(0)
		c.rounds(time.Hour)
		c.wantDeleted(15)
	})
}

// late is a record that another manager empties before it is read, and that is
// written so slowly that permits come in meanwhile.
type late struct {
	brake.Ledger
	c     *cluster
	times int // that it is so
}

func (l *late) Change(ctx context.Context, change func(string) (string, error)) error {
	now := l.c.clock.Now().UTC()
	if l.c.ledger.text != "" && l.times > 0 {
		l.times--
		l.c.ledger.text = fmt.Sprintf(`{"permits":0,"at":%q}`, now.Format(time.RFC3339Nano))
		defer l.c.clock.Step(4 * time.Minute) // enough for one
	}
	return l.Ledger.Change(ctx, change)
}

// A permit that comes in while another manager takes the last one is not taken.
func TestNoNodeGoesWithoutAPermitOfTheRecord(t *testing.T) {
	c := newCluster(t, 100, 2)
	c.rounds(time.Minute)
	c.wantDeleted(2)                      // so there is a record
	slow := &late{c.options.Ledger, c, 2} // when it is read, and when the permit is taken
	c.options.Ledger = slow
	c.restart()
	c.instances.exists = func(node string) (bool, error) { return node >= "n005", nil }
	c.instances.fresh = c.instances.exists
	c.change(2, 3, func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })
	for slow.times > 0 {
		c.round()
		c.clock.Step(5 * time.Second)
	}
	c.wantDeleted(2)
	c.rounds(time.Minute)
	c.wantDeleted(3)
}

func TestHeartbeatsThatCannotBeRead(t *testing.T) {
	c := newCluster(t, 100, 5)
	c.beatsErr = errors.New("forbidden")
	c.rounds(time.Hour)
	c.wantDeleted(0)
	if c.count("heartbeats failed true") != 1 || c.count("KubeletUnknown") != 5 || len(c.told) != 6 {
		t.Errorf("told %q", c.told)
	}
	c.beatsErr = nil
	c.rounds(time.Minute)
	c.wantDeleted(5)
}

// One Node whose question is never answered must not keep the others.
func TestANodeThatTrapsHoldsUpNobody(t *testing.T) {
	c := newCluster(t, 5, 3, func(o *brake.Options) { o.Nodes = 1 })
	c.instances.fresh = func(node string) (bool, error) {
		if node == "n000" { // it comes first
			return false, errors.New("trap")
		}
		return c.instances.exists(node)
	}
	c.rounds(2 * time.Hour)
	if slices.Sort(c.deleted); fmt.Sprint(c.deleted) != "[n001 n002]" {
		t.Errorf("deleted %v; told %q", c.deleted, c.told)
	}
}

func TestAnAdministratorLiftsIt(t *testing.T) {
	asked := 0
	var until time.Time
	var fails error
	c := newCluster(t, 200, 200, func(o *brake.Options) {
		o.Lifted = func(context.Context) (time.Time, error) { asked++; return until, fails }
	})
	c.rounds(time.Minute)
	c.wantDeleted(0)
	if asked > 8 {
		t.Errorf("asked %d times in a minute", asked)
	}
	until, fails = c.clock.Now().Add(time.Hour), errors.New("forbidden")
	c.rounds(time.Minute)
	c.wantDeleted(0) // an error does not lift it
	if c.count("annotation failed true") != 1 {
		t.Errorf("told %q", c.told)
	}
	fails, until = nil, c.clock.Now().Add(-time.Second)
	c.rounds(time.Minute)
	c.wantDeleted(0)
	until = c.clock.Now().Add(time.Hour)
	c.rounds(time.Minute)
	c.wantDeleted(200)
}

func TestNodesThatTheManagerDoesNotKnow(t *testing.T) {
	c := newCluster(t, 10, 1)
	for range 100 {
		stranger := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n001", UID: "another"}}
		c.instances.exists = func(string) (bool, error) { return false, nil }
		if exists, err := c.InstanceExists(t.Context(), stranger); !exists || err != nil {
			t.Fatalf("a later Node of the name: %v, %v", exists, err)
		}
		c.clock.Step(5 * time.Second)
	}
}

func TestAHeldNodeIsNotAskedWhetherItIsShutDown(t *testing.T) {
	c := newCluster(t, 10, 1)
	c.round()
	if off, err := c.InstanceShutdown(t.Context(), c.node("n000")); off || err != nil || c.instances.shutdowns != 0 {
		t.Errorf("%v, %v, %d questions", off, err, c.instances.shutdowns)
	}
	if _, err := c.InstanceShutdown(t.Context(), c.node("n005")); err == nil {
		t.Error("one that is not held is not asked about")
	}
}

func TestAnErrorIsNoAnswer(t *testing.T) {
	c := newCluster(t, 10, 1)
	c.instances.exists = func(string) (bool, error) { return false, errors.New("trap") }
	if exists, err := c.InstanceExists(t.Context(), c.node("n000")); exists || err == nil {
		t.Errorf("%v, %v", exists, err)
	}
}

// A deletion that fails takes no second permit.
func TestADeletionThatFails(t *testing.T) {
	c := newCluster(t, 40, 10)
	passed := map[string]int{}
	for range 12 { // two minutes; nothing is ever deleted
		for n := range 10 {
			node := c.node(fmt.Sprintf("n%03d", n))
			if exists, err := c.InstanceExists(t.Context(), node); !exists && err == nil {
				passed[node.Name]++
			}
		}
		c.clock.Step(10 * time.Second)
	}
	if len(passed) != 4 || passed["n000"] < 5 || c.ledger.writes != 4 {
		t.Errorf("passed %v, %d writes", passed, c.ledger.writes)
	}
}

func TestNobodyAsksAnyMore(t *testing.T) {
	c := newCluster(t, 100, 50)
	c.rounds(time.Minute)
	for n := range 50 {
		if item, ok, _ := c.nodes.GetByKey(fmt.Sprintf("n%03d", n)); ok {
			node := item.(*corev1.Node).DeepCopy()
			node.Status.Conditions[0].Status = corev1.ConditionTrue
			c.put(node)
		}
	}
	for range 3 { // upstream's node controller refreshes the Nodes
		c.clock.Step(5 * time.Minute)
		if _, err := c.InstanceMetadata(t.Context(), c.node("n099")); err != nil {
			t.Fatal(err)
		}
	}
	if c.count("engaged false") != 1 || c.status.Engaged || c.status.Gone != 0 {
		t.Errorf("told %q, status %+v", c.told, c.status)
	}
}
