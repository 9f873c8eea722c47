package brake_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/brake"
)

// holding says how n001, of four Nodes of which two are gone, comes to be held for each reason.
func holding() map[brake.Reason]func(c *cluster) {
	changed := func(to int, change func(*corev1.Node)) func(*cluster) {
		return func(c *cluster) { c.change(0, to, change); c.rounds(2 * time.Minute) }
	}
	alone := func(c *cluster) { // nobody is before it in the line
		c.change(0, 1, func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
	}
	return map[brake.Reason]func(c *cluster){
		brake.ReasonGrace:         func(c *cluster) { c.round() },
		brake.ReasonNever:         changed(2, annotation(brake.NodeDeletionAnnotation, brake.Never)),
		brake.ReasonBadAnnotation: changed(2, annotation(brake.GracePeriodAnnotation, "soon")),
		brake.ReasonNotYetKnown:   changed(2, func(n *corev1.Node) { n.Spec.ProviderID = "" }),
		brake.ReasonControlPlane:  changed(3, func(n *corev1.Node) { n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""} }),
		brake.ReasonNoWitness:     changed(4, func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }),
		brake.ReasonNoPermit:      func(c *cluster) { c.rounds(time.Minute) },
		brake.ReasonNoHeartbeats:  func(c *cluster) { c.beatsErr = errors.New("forbidden"); c.rounds(time.Minute) },
		brake.ReasonNoRecord:      func(c *cluster) { c.ledger.fail(errors.New("forbidden")); c.rounds(time.Minute) },
		brake.ReasonUnconfirmed: func(c *cluster) {
			alone(c)
			c.instances.fresh = func(node string) (bool, error) {
				if node == "n001" {
					return false, errors.New("trap")
				}
				return true, nil
			}
			c.rounds(time.Minute)
		},
		brake.ReasonAlive: func(c *cluster) {
			alone(c)
			for range 24 {
				c.beats["n001"] = c.clock.Now().Truncate(10 * time.Second)
				c.round()
				c.clock.Step(5 * time.Second)
			}
		},
		brake.ReasonNotInCluster: func(c *cluster) {
			if err := c.nodes.Delete(c.node("n001")); err != nil {
				c.t.Fatal(err)
			}
		},
	}
}

// unbraked are the ways to let n001 go; the last changes nothing.
func unbraked(until *time.Time) map[string]func(*cluster, *corev1.Node) {
	return map[string]func(*cluster, *corev1.Node){
		"lifted": func(c *cluster, _ *corev1.Node) { *until = c.clock.Now().Add(time.Hour) },
		brake.Unbraked: func(_ *cluster, node *corev1.Node) {
			if node.Annotations == nil {
				node.Annotations = map[string]string{}
			}
			if _, has := node.Annotations[brake.NodeDeletionAnnotation]; !has {
				node.Annotations[brake.NodeDeletionAnnotation] = brake.Unbraked
			}
		},
		"": func(*cluster, *corev1.Node) {},
	}
}

// What a reason says of itself is so: without the brake, for one Node or for all, a
// Node goes that is held for a reason that lifts, and no other.
func TestWhichReasonsLift(t *testing.T) {
	source, err := os.ReadFile("observer.go")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`Reason = "(\w+)"`).FindAllSubmatch(source, -1)
	var until time.Time
	for _, match := range all {
		reason := brake.Reason(match[1])
		hold := holding()[reason]
		if hold == nil {
			t.Errorf("no cluster shows the reason %s", reason)
			continue
		}
		for how, change := range unbraked(&until) {
			until = time.Time{}
			c := newCluster(t, 4, 2, func(o *brake.Options) {
				o.Lifted = func(context.Context) (time.Time, error) { return until, nil }
			})
			node := c.node("n001")
			hold(c)
			if reason != brake.ReasonNotInCluster { // of which nothing is kept
				node = c.node("n001")
				if held := c.Look(node); held == nil || held.Reason != reason {
					t.Errorf("it is held for %+v, want %s", held, reason)
				}
			}
			change(c, node)
			if goes, want := c.goes(node), how != "" && reason.Lifts(); goes != want {
				t.Errorf("%s, %q: it goes: %v, want %v", reason, how, goes, want)
			}
		}
	}
	if len(all) != len(holding()) {
		t.Errorf("found are %d reasons of %d", len(all), len(holding()))
	}
}

// goes reports whether a Node goes at the next question: in less than a grace period.
func (c *cluster) goes(node *corev1.Node) bool {
	for range 7 {
		if exists, err := c.InstanceExists(c.t.Context(), node); err != nil || !exists {
			return err == nil
		}
		c.clock.Step(5 * time.Second)
	}
	return false
}
