//go:build node

package node_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// testKill ends the manager as the kernel does when memory is short. The
// kubelet starts it again in the same pod, beside the cache of compiled modules.
func testKill(t *testing.T, c *cluster) {
	c.trusted(t, "static.wasm", inventory(1)) // before that, a manager that is killed suspects it
	n := c.nodes[0]
	before := c.pod(t.Context(), t, n)
	n.memory(t, "a manager after its first minute")
	process := n.process(t)
	if err := syscall.Kill(process, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	n.startToReady(t, process)
	after := c.running(t, "the manager is ready again", n, func(p *corev1.Pod) bool { return restarts(p) == restarts(before)+1 })
	if after.UID != before.UID {
		t.Errorf("pod %s instead of %s", after.Name, before.Name)
	}
	c.served(t, "after-kill")
	n.memory(t, "a manager that found its module in the cache")
}

// testRolloutRestart is the only planned end of a manager without a standby: it
// gives back its lease, so that the next one leads at once.
func testRolloutRestart(t *testing.T, c *cluster) {
	n := c.nodes[0]
	before := c.pod(t.Context(), t, n)
	c.kubectl(t, "-n", namespace, "rollout", "restart", "daemonset/"+workload)
	c.kubectl(t, "-n", namespace, "rollout", "status", "daemonset/"+workload, "--timeout=2m")
	after := c.running(t, "the new manager is ready", n, anyPod)
	if after.UID == before.UID || restarts(after) > 0 {
		t.Errorf("pod %s after %s, with %d restarts", after.Name, before.Name, restarts(after))
	}
	c.served(t, "after-restart")
}

// testKubelet: a kubelet that is restarted finds the manager as it was.
func testKubelet(t *testing.T, c *cluster) {
	n := c.nodes[0]
	before, process := c.pod(t.Context(), t, n), n.process(t)
	registrations := n.registrations(t)
	n.kubelet.kill(t)
	c.served(t, "without-kubelet")
	n.startKubelet(t)
	c.await(t, "the kubelet is back", patience, func(context.Context) bool {
		return n.registrations(t) > registrations
	})
	after := c.running(t, "the manager is ready", n, anyPod)
	if after.UID != before.UID || restarts(after) != restarts(before) || n.process(t) != process {
		t.Errorf("process %d of pod %s with %d restarts, before process %d of %s with %d", n.process(t), after.Name, restarts(after), process, before.Name, restarts(before))
	}
	if node := c.get(t.Context(), n.name); !initialized(node) || node.Status.Addresses[0].Address != n.address {
		t.Errorf("Node %v %v", node.Spec, node.Status.Addresses)
	}
}

// registrations counts how often the kubelet has told the API server of its Node.
func (n *node) registrations(t *testing.T) int {
	t.Helper()
	return bytes.Count(readFile(t, logFile(n.kubelet.name)), []byte("Successfully registered node"))
}

// testSwap replaces the provider's ConfigMap.
func testSwap(t *testing.T, c *cluster) {
	n := c.nodes[0]
	process := n.process(t)
	c.offer(t, "replace", module("static-next.wasm"))
	c.serves(t, next, "Serving", patience)
	c.promote(t)
	c.serves(t, next, "Kept", patience)
	c.trusted(t, "static-next.wasm", inventory(1)) // now it is saved, too
	if n.process(t) != process {
		t.Errorf("process %d serves, %d did before", n.process(t), process)
	}
	c.served(t, "after-swap")
}

// trusted waits until a module with its configuration has passed its trial, for
// 20 s.
func (c *cluster) trusted(t *testing.T, module, config string) {
	t.Helper()
	type subject struct{ Module, Config string }
	want := subject{fmt.Sprintf("%x", sha256.Sum256(readFile(t, built(module)))), fmt.Sprintf("%x", sha256.Sum256([]byte(config)))}
	c.await(t, module+" is trusted", patience, func(ctx context.Context) bool {
		var book struct{ Passed []subject }
		if json.Unmarshal([]byte(c.state(ctx, t).Trials), &book) != nil {
			return false
		}
		return slices.Contains(book.Passed, want)
	})
}

// promote ends the time of observation.
func (c *cluster) promote(t *testing.T) {
	t.Helper()
	c.kubectl(t, "-n", namespace, "annotate", "configmap", "wasm-ccm-provider-"+providerName, "wasm-ccm.dev/promote=true")
}
