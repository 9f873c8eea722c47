package e2e

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lease is what harness.flags say. A standby looks every 100 ms here, to which
// client-go adds up to 120 %: both are part of the second.
const (
	lease         = 4 * time.Second
	failovers     = 3
	failoverLimit = lease + time.Second
	// failoverShared is for a machine that does other things as well.
	failoverShared = lease + 6*time.Second
)

// TestFailover kills the leader, again and again. The other one has compiled and
// probed the provider, and its first op is at the cloud within one lease and a
// second.
func TestFailover(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	t.Parallel() // it has a control plane of its own
	r := newRig(t, "failover-time")
	ctx := t.Context()
	r.put(ctx, t, configMap, r.wasm(t, "faulty.wasm"), "count="+r.url("a"))
	flags := []string{r.hostConfiguration(t, oneProvider), "--leader-elect-retry-period=100ms"}
	leader := r.startManager(t, "m0", flags...)
	for i := range 3 {
		r.node(ctx, t, "a", fmt.Sprintf("node-%d", i))
	}
	r.awaitInitialized(ctx, t, leader)
	for i := range 5 {
		r.service(ctx, t, r.namespace, fmt.Sprintf("web-%d", i), nil)
	}
	r.awaitRight(ctx, t, leader, "a")
	r.awaitRecorded(ctx, t, leader, "a", r.wasm(t, "faulty.wasm"))
	account := r.cloud.account("a")
	for n := range failovers {
		standby := r.startManager(t, fmt.Sprintf("m%d", n+1), flags...)
		r.awaitServing(ctx, t, standby, r.wasm(t, "faulty.wasm"))
		holder := r.holder(t)
		account.mark()
		leader.kill()
		killed, before := time.Now(), account.requests()
		r.until(ctx, t, standby, "the first op after the kill", func() (bool, string) {
			return account.requests() > before, r.holder(t)
		})
		took := time.Since(killed).Round(time.Millisecond)
		t.Logf("the first op is %v after the kill (to reach: %v)", took, failoverLimit)
		if limit := bound(float64(failoverLimit), float64(failoverShared)); float64(took) > limit {
			t.Errorf("failover took %v", took)
		}
		if now := r.holder(t); now == holder {
			t.Errorf("%s still leads: it was not the leader that was killed", now)
		}
		r.awaitRight(ctx, t, standby, "a")
		if lines := account.writtenSinceMark(); lines != "" {
			t.Errorf("written at the cloud:\n%s", lines)
		}
		leader = standby
	}
}

func (r *rig) holder(t *testing.T) string {
	t.Helper()
	lease, err := r.client.CoordinationV1().Leases(r.namespace).Get(t.Context(), "cloud-controller-manager", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		t.Fatal("no leader: ", err)
	}
	return *lease.Spec.HolderIdentity
}
