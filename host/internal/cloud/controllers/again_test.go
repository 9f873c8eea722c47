package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// trapping is a cloud whose generations fail some Nodes, after a while.
type trapping struct {
	*failingCloud
	fails string        // is in the names of those that fail
	takes time.Duration // until one fails
}

func newTrapping(fails string) *trapping {
	c := &trapping{newFailingCloud(errors.New("unreachable executed")), fails, 0}
	c.addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.7"}}
	return c
}

func (c *trapping) provider() Provider {
	p := c.failingCloud.provider()
	p.Cloud = c
	return p
}

func (c *trapping) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, true }

func (c *trapping) InstanceMetadata(ctx context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	fail, fails := c.failure(), strings.Contains(n.Name, c.fails)
	metadata, err := c.cloud.InstanceMetadata(ctx, n)
	metadata.NodeAddresses = c.addresses
	if fail != nil && fails {
		time.Sleep(c.takes)
		return nil, fail
	}
	return metadata, err
}

// asked is how often metadata of a Node was asked for.
func (c *trapping) asked(name string) int { return c.count("metadata " + name) }

// underTrap runs a test an hour after a generation began to fail Nodes; upstream
// asks for all that are initialised every five minutes.
func underTrap(t *testing.T, nodes []*corev1.Node, test func(w *world, c *trapping)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t), newTrapping("bad")
		w.completed.ComponentConfig.NodeStatusUpdateFrequency.Duration = 5 * time.Minute
		for _, n := range nodes {
			w.create(t, n)
		}
		w.start(c.provider())
		time.Sleep(time.Hour + time.Minute)
		synctest.Wait()
		test(w, c)
		w.stop()
	})
}

func initialised(name string) *corev1.Node { return node(name, "a://"+name, corev1.ConditionTrue) }

func TestAReplacementAsksAtOnceForNodesThatAreInitialised(t *testing.T) {
	underTrap(t, []*corev1.Node{initialised("a-bad"), initialised("a-good")}, func(w *world, c *trapping) {
		bad, good := c.asked("a-bad"), c.asked("a-good")
		c.becomes(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := c.asked("a-bad") - bad; n != 1 {
			t.Errorf("within 2 s the Node that failed was asked for %d times, want once", n)
		}
		if n := c.asked("a-good") - good; n != 0 {
			t.Errorf("the Node that is in order was asked for %d times", n)
		}
		for _, name := range []string{"a-bad", "a-good"} {
			n, err := w.api.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
			if err != nil || len(n.Status.Addresses) != 1 {
				t.Errorf("%s has the addresses %v, %v; want what was answered", name, n.Status.Addresses, err)
			}
		}
		c.becomes(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := c.asked("a-bad") - bad; n != 1 {
			t.Errorf("the next replacement asks %d times for what did not fail", n-1)
		}
	})
}

// A generation that puts a Node off is asked again when it said so, not after five
// minutes.
func TestANodeThatIsInitialisedIsAskedForWhenItsProviderSaidSo(t *testing.T) {
	underTrap(t, []*corev1.Node{initialised("a-bad")}, func(_ *world, c *trapping) {
		c.becomes(cloudproviderapi.NewRetryError("has been in progress", 3*time.Second))
		time.Sleep(time.Second)
		c.mu.Lock()
		c.fail = nil
		c.mu.Unlock()
		before := c.asked("a-bad")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if n := c.asked("a-bad") - before; n != 1 {
			t.Errorf("asked for %d times within 4 s, want once", n)
		}
	})
}

// What a generation fails after the takeover, of a call that it had begun before,
// does not count against the one that serves.
func TestACallThatEndsAfterTheTakeoverIsMadeAgain(t *testing.T) {
	for name, n := range map[string]*corev1.Node{"joining": uninitialisedNode("a-bad"), "initialised": initialised("a-bad")} {
		t.Run(name, func(t *testing.T) {
			underTrap(t, nil, func(w *world, c *trapping) {
				c.takes = 10 * time.Second
				w.create(t, n)
				if name == "initialised" { // at upstream's next round
					time.Sleep(4*time.Minute + time.Second)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if c.asked("a-bad") != 1 {
					t.Fatalf("asked for %d times", c.asked("a-bad"))
				}
				c.becomes(nil)
				time.Sleep(11 * time.Second)
				synctest.Wait()
				got, err := w.api.CoreV1().Nodes().Get(t.Context(), "a-bad", metav1.GetOptions{})
				if err != nil || isUninitialised(got) || len(got.Status.Addresses) != 1 {
					t.Errorf("2 s after the old generation failed: taints %v, addresses %v, %v", got.Spec.Taints, got.Status.Addresses, err)
				}
			})
		})
	}
}

// Hundreds of Nodes are no burst for the new generation, and those that join come first.
func TestAReplacementAsksForAFewNodesPerSecond(t *testing.T) {
	const each = 100
	var nodes []*corev1.Node
	for i := range each {
		nodes = append(nodes, initialised(fmt.Sprintf("a-old-bad-%d", i)), uninitialisedNode(fmt.Sprintf("a-new-bad-%d", i)))
	}
	underTrap(t, nodes, func(_ *world, c *trapping) {
		before, joined := c.asked("a-"), c.asked("a-new")
		c.becomes(nil)
		time.Sleep(time.Second - time.Millisecond)
		synctest.Wait()
		if n := c.asked("a-") - before; n < 30 || n > 40 {
			t.Errorf("%d Nodes within a second, want 20 of each kind", n)
		}
		if c.asked("a-new") == joined {
			t.Error("no Node that joins was asked for")
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := c.asked("a-") - before; n != 2*each {
			t.Errorf("%d questions about %d Nodes within 6 s", n, 2*each)
		}
	})
}
