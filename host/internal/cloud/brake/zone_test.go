package brake_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/brake"
)

// A zone is emptied by hand, one machine after the other. The Nodes that vouch
// for it are gone as well, most of them a moment ago: an honest provider says so,
// and is no liar for it.
func TestAZoneThatIsEmptied(t *testing.T) {
	for _, shutdown := range []time.Duration{0, 90 * time.Second} { // which the cloud does not wait for
		for _, every := range []time.Duration{30 * time.Second, time.Minute, 90 * time.Second} {
			t.Run(fmt.Sprint(every, " ", shutdown), func(t *testing.T) {
				s := scenario{play: func(w *world) { w.empty(12, every, shutdown) }}
				stale, deleted, _, w := s.run(t, 3*time.Hour, 5*time.Second)
				if len(w.denied) > 0 || stale[1] > 0 || deleted[1] != 12 {
					t.Errorf("contradicted %d times, %d of 12 deleted after an hour, %d after three; told %v", len(w.denied), deleted[0], deleted[1], w.events)
				}
			})
		}
	}
}

// empty joins a zone beside others, and deletes it.
func (w *world) empty(size int, every, shutdown time.Duration) {
	w.cluster(60)
	zone := names("z", 0, size)
	for _, name := range zone {
		w.join(name, "z", true)
	}
	for n, name := range zone {
		w.until(time.Duration(n+1) * every)
		w.mu.Lock()
		w.machines[name].exists = false
		w.mu.Unlock()
		time.AfterFunc(shutdown, func() { w.silence(name) })
	}
}

// Its kubelets live: who denies a zone of them is caught, and once for a while.
func TestAZoneThatIsDenied(t *testing.T) {
	c := newCluster(t, 100, 3)
	c.change(0, 50, func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelTopologyZone: "a"} })
	c.change(50, 100, func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelTopologyZone: "b"} })
	without := func(node string) (bool, error) { return node >= "n050", nil }
	c.instances.exists, c.instances.fresh = without, without
	c.rounds(5 * time.Minute)
	if n := c.count("contradicted by witness"); n != 0 {
		t.Errorf("contradicted %d times within five minutes: %q", n, c.told)
	}
	c.rounds(5 * time.Minute)
	c.wantDeleted(0)
	if n := c.count("contradicted by witness"); n != 1 {
		t.Errorf("contradicted %d times: %q", n, c.told)
	}
}

// Where kubelets have no Leases, that a Node is Ready is all that is known of it.
func TestWitnessesWithoutLeases(t *testing.T) {
	c := newCluster(t, 10, 1, func(o *brake.Options) {
		o.Heartbeats = func(context.Context) (map[string]time.Time, error) { return nil, nil }
	})
	c.instances.exists = func(string) (bool, error) { return false, nil }
	c.instances.fresh = c.instances.exists
	c.rounds(2 * time.Minute)
	c.wantDeleted(0)
	if n := c.count("contradicted by witness"); n != 1 {
		t.Errorf("contradicted %d times: %q", n, c.told)
	}
}

// With a settling time below that between two heartbeats every kubelet would look
// dead.
func TestAShortSettlingTimeHearsKubelets(t *testing.T) {
	c := newCluster(t, 10, 1, func(o *brake.Options) { o.Settle = time.Second })
	for range 12 * 60 / 2 { // its Node is not Ready, as of a broken network plugin
		c.beats["n000"] = c.clock.Now().Truncate(10 * time.Second)
		c.round()
		c.clock.Step(2 * time.Second)
	}
	c.wantDeleted(0)
	c.rounds(time.Hour) // it is dead
	c.wantDeleted(1)
}
