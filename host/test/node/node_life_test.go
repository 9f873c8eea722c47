//go:build node

package node_test

import (
	"testing"
)

// TestNode is the life of a cluster in the order in which it happens: each step
// needs those before it.
func TestNode(t *testing.T) {
	c := startCluster(t)
	for _, step := range []struct {
		name string
		run  func(t *testing.T, c *cluster)
	}{
		{"the image", testImage},
		{"the first node", testFirstNode},
		{"confined", testConfined},
		{"network of pods", testNetwork},
		{"a Service gets an address", testService},
		{"ccmctl", testCcmctl},
		{"ccmctl with less rights", testCcmctlRights},
		{"kill -9", testKill},
		{"an upgrade", testUpgrade},
		{"rollout restart", testRolloutRestart},
		{"the kubelet restarts", testKubelet},
		{"a new version through the API", testSwap},
		{"a CloudProvider and a registry", testRegistry},
		{"the module in a volume", testVolume},
		{"the module in an image", testImageVolume},
		{"uninstalled", testUninstall},
		{"ccmctl without a manager", testCcmctlNobody},
		{"without Helm", testKustomize},
		{"two nodes", testTwoNodes},
		{"drain", testDrain},
		{"a node loses its power", testPowerFailure},
		{"ccmctl while the leader changes", testCcmctlLeader},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, c) }) {
			return
		}
	}
}
