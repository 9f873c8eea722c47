package brake_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A cluster has Nodes of another cloud, or of a provider that was taken out of
// the configuration: "no such machine" of one that knows only its own is no word
// about them, and no lie.
func TestNodesOfAnotherCloudStay(t *testing.T) {
	c := newCluster(t, 12, 1)
	foreign := func(n *corev1.Node) { n.Spec.ProviderID = "blue:///" + n.Name }
	c.change(0, 4, foreign)
	own := func(node string) (bool, error) { return node >= "n004", nil }
	c.instances.exists, c.instances.fresh = own, own
	c.rounds(3 * time.Hour) // n000 is off the network
	c.wantDeleted(0)
	if c.count("contradicted by witness") != 0 || c.count("n000 NoWitness") != 1 {
		t.Errorf("told %q", c.told)
	}
	c.change(4, 5, func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })
	c.beats["n004"] = c.clock.Now()
	gone := func(node string) (bool, error) { return node > "n004", nil }
	c.instances.exists, c.instances.fresh = gone, gone
	c.rounds(10 * time.Minute) // one of its own is gone
	if c.wantDeleted(1); len(c.deleted) == 1 && c.deleted[0] != "n004" {
		t.Errorf("deleted %v", c.deleted)
	}
	c.change(1, 4, func(n *corev1.Node) { n.Spec.ProviderID = "fake://" + n.Name }) // nobody else is left of that cloud
	c.rounds(10 * time.Minute)
	c.wantDeleted(2)
}
