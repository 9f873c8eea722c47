//go:build node

package node_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/test/devregistry"
)

// ofRegistry is the provider as an object, with its module in a registry.
const ofRegistry = `apiVersion: config.wasm-ccm.dev/v1alpha1
kind: CloudProvider
metadata: {name: ` + providerName + `}
spec:
  source: {oci: {reference: "%s/providers/static:v1", interval: 10s, caBundle: %q}}
  store: ` + providerName + `
  rollout: {observePeriod: 1s}
`

// testRegistry ends the manager of a CloudProvider whose module is in a registry,
// and the kubelet with it. Afterwards the same version serves, and nothing is
// lost.
func testRegistry(t *testing.T, c *cluster) {
	config := inventory(1) + "# in a registry\n"
	r := pushed(t, "static-next.wasm", config)
	c.helm(t, "upgrade", "--values", written(t, "values.yaml", "providers: []\ncloudProviders: {enabled: true, rights: [{name: "+providerName+"}]}\n"))
	c.rolledOut(t)
	c.kubectl(t, "apply", "-f", written(t, "cloudprovider.yaml", fmt.Sprintf(ofRegistry, r.Address, r.CABundle)))
	c.kubectl(t, "wait", "--for=condition=Ready", "cloudprovider/"+providerName, "--timeout=2m")
	c.serves(t, next, "Kept", patience)
	c.trusted(t, "static-next.wasm", config)
	c.served(t, "from-registry")

	n := c.nodes[0]
	before, process, there := c.pod(t.Context(), t, n), n.process(t), c.there(t)
	n.kubelet.kill(t)
	if err := syscall.Kill(process, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	n.startKubelet(t)
	after := c.running(t, "the manager is ready again", n, func(p *corev1.Pod) bool { return restarts(p) == restarts(before)+1 })
	if after.UID != before.UID {
		t.Errorf("pod %s instead of %s", after.Name, before.Name)
	}
	c.await(t, "the Node is Ready", patience, func(ctx context.Context) bool { return ready(c.get(ctx, n.name)) })
	c.serves(t, next, "Kept", patience)
	c.kubectl(t, "wait", "--for=condition=Ready", "cloudprovider/"+providerName, "--timeout=1s")
	if diff := cmp.Diff(there, c.there(t)); diff != "" {
		t.Errorf("Nodes and Services (-before +after):\n%s", diff)
	}
	c.served(t, "registry-after-kill")
}

// pushed starts a registry on the nodes' network, until the test ends, with a
// provider.
func pushed(t *testing.T, module, config string) *devregistry.Registry {
	t.Helper()
	dir := filepath.Join(data(), "registry")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := devregistry.Start(devregistry.Options{AssetsDir: filepath.Dir(asset("registry")), Dir: dir, Host: bridgeAddress, TLS: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Stop() }) // it is killed
	cmd := exec.CommandContext(t.Context(), built("ccmctl"), "push", "--ca-file", written(t, "registry.crt", r.CABundle),
		"--config", written(t, "config.yaml", config), built(module), r.Address+"/providers/static:v1")
	if out, err := record(t, cmd); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

// there are the Nodes and the Services with their addresses.
func (c *cluster) there(t *testing.T) (all []string) {
	t.Helper()
	nodes, err := c.admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	services, err := c.admin.CoreV1().Services("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		all = append(all, fmt.Sprint("Node ", n.Name, " ", n.UID, " ", n.Spec.ProviderID))
	}
	for _, s := range services.Items {
		var addresses []string
		for _, ingress := range s.Status.LoadBalancer.Ingress {
			addresses = append(addresses, ingress.IP)
		}
		all = append(all, fmt.Sprint("Service ", s.Name, " ", s.UID, " ", strings.Join(addresses, " ")))
	}
	return all
}
