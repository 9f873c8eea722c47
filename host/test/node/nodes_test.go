//go:build node

package node_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testTwoNodes adds a control-plane node: first to the inventory, then to the
// cluster. The manager on it stands by.
func testTwoNodes(t *testing.T, c *cluster) {
	c.offer(t, "replace", module("static.wasm"), configuration(t, 2))
	c.serves(t, first, "Serving", patience)
	c.promote(t)
	c.serves(t, first, "Kept", patience)
	cp2 := c.join(t, 2, "--node-ip=10.77.0.12")
	c.await(t, "Node cp-2 is initialised", patience, func(ctx context.Context) bool { return initialized(c.get(ctx, cp2.name)) })
	c.running(t, "the standby is ready", cp2, anyPod)
	cp2.connect(t)
	c.await(t, "Node cp-2 is Ready", patience, func(ctx context.Context) bool { return ready(c.get(ctx, cp2.name)) })
	c.served(t, "two-nodes")
	c.trusted(t, "static.wasm", inventory(2))
	c.restart(t)
	c.served(t, "two-restarted")
}

// testDrain empties the leader's node as README.md says: its manager stays.
func testDrain(t *testing.T, c *cluster) {
	leader := c.leader(t)
	before := c.pod(t.Context(), t, leader)
	c.kubectl(t, "drain", leader.name, "--ignore-daemonsets", "--delete-emptydir-data")
	c.served(t, "drained")
	c.kubectl(t, "uncordon", leader.name)
	if after := c.pod(t.Context(), t, leader); after.UID != before.UID {
		t.Errorf("pod %s instead of %s", after.Name, before.Name)
	}
}

// testPowerFailure ends all of the leader's machine at once. The standby leads
// when the lease has expired. When the machine is back, its manager stands by.
func testPowerFailure(t *testing.T, c *cluster) {
	lost := c.leader(t)
	c.powerOff(t, lost)
	c.served(t, "after-power")
	if now := c.leader(t); now == lost {
		t.Errorf("%s leads without power", lost.name)
	}
	lost.startContainerd(t)
	lost.startKubelet(t)
	c.await(t, "Node "+lost.name+" is Ready", patience, func(ctx context.Context) bool {
		return ready(c.get(ctx, lost.name)) && !slices.ContainsFunc(c.get(ctx, lost.name).Spec.Taints, unreachable)
	})
	c.running(t, "the manager stands by", lost, func(p *corev1.Pod) bool { return restarts(p) > 0 })
	c.served(t, "power-is-back")
}

// unreachable is the taint of a node whose kubelet is silent.
func unreachable(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeUnreachable }

// leader is the node whose manager has the lease.
func (c *cluster) leader(t *testing.T) *node {
	t.Helper()
	lease, err := c.admin.CoordinationV1().Leases(namespace).Get(t.Context(), workload, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range c.nodes {
		if lease.Spec.HolderIdentity != nil && strings.HasPrefix(*lease.Spec.HolderIdentity, hostname(n.name)+"_") {
			return n
		}
	}
	t.Fatalf("nobody leads: %v", lease.Spec)
	return nil
}

// restart is a planned change of every manager.
func (c *cluster) restart(t *testing.T) {
	t.Helper()
	c.kubectl(t, "-n", namespace, "rollout", "restart", "daemonset/"+workload)
	c.kubectl(t, "-n", namespace, "rollout", "status", "daemonset/"+workload, "--timeout=2m")
}

// powerOff ends every process of a machine at the same time: the kubelet and
// containerd first, which would start others.
func (c *cluster) powerOff(t *testing.T, n *node) {
	t.Helper()
	n.kubelet.kill(t)
	n.containerd.kill(t)
	for _, pid := range n.cgroupProcesses(t) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatalf("process %d of %s: %v", pid, n.name, err)
		}
	}
}

// cgroupProcesses are those of its pods.
func (n *node) cgroupProcesses(t *testing.T) (found []int) {
	t.Helper()
	all, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(all[0]+n.cgroup, func(path string, entry os.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a container has just ended
		}
		if err != nil || entry.Name() != "cgroup.procs" {
			return err
		}
		ids, _ := os.ReadFile(path)
		for _, id := range strings.Fields(string(ids)) {
			pid, err := strconv.Atoi(id)
			if err != nil {
				return err
			}
			found = append(found, pid)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
