//go:build node

package node_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// kubeletPatience is what a kubelet may take to deliver a changed ConfigMap.
const kubeletPatience = 3 * time.Minute

// testVolume has the kubelet mount the ConfigMap, and exchange its contents.
func testVolume(t *testing.T, c *cluster) {
	c.helm(t, "upgrade", "--values", values(t, inventory(1), "{configMap: {name: cloud-provider-"+providerName+"}}"))
	c.rolledOut(t)
	if out, _ := c.quietly(t, "auth", "can-i", "get", "configmap/cloud-provider-"+providerName, "-n", namespace, "--as=system:serviceaccount:"+namespace+":"+workload); out != "no\n" {
		t.Errorf("the manager may read the ConfigMap: %q", out)
	}
	n := c.nodes[0]
	pod := c.running(t, "the manager is ready", n, anyPod)
	c.serves(t, next, "Kept", patience)
	c.offer(t, "replace", module("static.wasm"))
	c.serves(t, first, "Serving", kubeletPatience)
	c.promote(t)
	c.serves(t, first, "Kept", patience)
	if after := c.pod(t.Context(), t, n); after.UID != pod.UID || restarts(after) > 0 {
		t.Errorf("pod %s with %d restarts, before %s", after.Name, restarts(after), pod.Name)
	}
	c.served(t, "from-volume")
}

// testImageVolume has the kubelet mount an image that holds a module.
func testImageVolume(t *testing.T, c *cluster) {
	const image = "localhost/wasm-ccm/provider-static:v1"
	archive, config := filepath.Join(data(), "provider.tar"), inventory(1)+"# in an image\n"
	pack(t, archive, image, "", map[string][]byte{
		"provider.wasm": readFile(t, built("static-next.wasm")), "config.yaml": []byte(config),
	})
	c.nodes[0].importImage(t, archive)
	text := "providers:\n- name: " + providerName + "\n  volume: {image: {reference: " + image + ", pullPolicy: IfNotPresent}}\n"
	c.helm(t, "upgrade", "--values", written(t, "values.yaml", text))
	c.rolledOut(t)
	c.await(t, "the configuration in the image serves", patience, func(ctx context.Context) bool {
		return c.state(ctx, t).Serving.ConfigDigest == fmt.Sprintf("%x", sha256.Sum256([]byte(config)))
	})
	c.served(t, "from-image")
}
