//go:build node

package node_test

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testFirstNode goes from an empty cluster to the first initialised Node, on
// which no pod but the manager could run.
func testFirstNode(t *testing.T, c *cluster) {
	cp1 := c.join(t, 1)
	file := values(t, inventory(1), "")
	c.settled(t)
	begun := time.Now()
	c.offer(t, "create", module("static.wasm"))
	c.helm(t, "install", "--values", file)
	c.await(t, "Node cp-1 is initialised", patience, func(ctx context.Context) bool { return initialized(c.get(ctx, cp1.name)) })
	t.Logf("figure: from the first command to an initialised Node: %.1f s", time.Since(begun).Seconds())
	c.rolledOut(t)
	n := c.get(t.Context(), cp1.name)
	if ready(n) {
		t.Error("the Node is Ready without a network of pods: the test shows nothing")
	}
	if n.Spec.ProviderID != "static://cp-1" || n.Labels[corev1.LabelTopologyZone] != "a" || len(n.Status.Addresses) == 0 || n.Status.Addresses[0].Address != cp1.address {
		t.Errorf("Node %s %v %v", n.Spec.ProviderID, n.Labels, n.Status.Addresses)
	}
	c.kubectl(t, "get", "nodes,pods", "-A", "-o", "wide")
}

// settled waits until the cluster is as one that is older than some seconds: helm refuses
// what comes while it looks.
func (c *cluster) settled(t *testing.T) {
	t.Helper()
	c.await(t, "kube-controller-manager has its ServiceAccount", patience, func(ctx context.Context) bool {
		_, err := c.admin.CoreV1().ServiceAccounts("kube-system").Get(ctx, "node-controller", metav1.GetOptions{})
		return err == nil
	})
}

// testConfined looks at the process itself: what it may, and where it listens.
func testConfined(t *testing.T, c *cluster) {
	pid := c.nodes[0].process(t)
	got := statusOf(t, procDir(pid))
	for field, want := range map[string]string{
		"Uid": "65532\t65532\t65532\t65532", "CapEff": "0000000000000000", "CapBnd": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2",
	} {
		if got[field] != want {
			t.Errorf("%s of the manager is %q, want %q", field, got[field], want)
		}
	}
	if diff := cmp.Diff([]string{"10258", "10268"}, listening(t, pid)); diff != "" {
		t.Errorf("ports of the manager (-want +got):\n%s", diff)
	}
}

// listening are the TCP ports at which a process waits for connections.
func listening(t *testing.T, pid int) (ports []string) {
	t.Helper()
	sockets := map[string]bool{}
	descriptors, err := os.ReadDir(procDir(pid) + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range descriptors {
		target, _ := os.Readlink(procDir(pid) + "/fd/" + entry.Name())
		sockets[target] = true
	}
	for _, file := range []string{"/net/tcp", "/net/tcp6"} {
		for _, line := range strings.Split(string(readFile(t, procDir(pid)+file)), "\n") {
			fields := strings.Fields(line) // proc(5): 1 is the local address, 3 the state, 9 the inode
			if len(fields) < 10 || fields[3] != "0A" || !sockets["socket:["+fields[9]+"]"] {
				continue
			}
			port, err := strconv.ParseUint(fields[1][strings.LastIndex(fields[1], ":")+1:], 16, 16)
			if err != nil {
				t.Fatal(err)
			}
			ports = append(ports, strconv.FormatUint(port, 10))
		}
	}
	slices.Sort(ports)
	return ports
}

func testNetwork(t *testing.T, c *cluster) {
	c.nodes[0].connect(t)
	c.await(t, "Node cp-1 is Ready", patience, func(ctx context.Context) bool { return ready(c.get(ctx, "cp-1")) })
}

func testService(t *testing.T, c *cluster) { c.served(t, "web") }

// served makes a Service and waits for its address.
func (c *cluster) served(t *testing.T, name string) {
	t.Helper()
	c.kubectl(t, "create", "service", "loadbalancer", name, "--tcp=80:8080")
	c.await(t, "Service "+name+" has an address", patience, func(ctx context.Context) bool { return strings.HasPrefix(c.address(ctx, t, name), "198.51.100.") })
}

// address is that of a Service's load balancer, "" before it has one.
func (c *cluster) address(ctx context.Context, t *testing.T, name string) string {
	t.Helper()
	service, err := c.admin.CoreV1().Services("default").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if ingress := service.Status.LoadBalancer.Ingress; len(ingress) > 0 {
		return ingress[0].IP
	}
	return ""
}

func procDir(pid int) string { return "/proc/" + strconv.Itoa(pid) }

// testUpgrade changes the pod: there is no second manager to lead meanwhile.
func testUpgrade(t *testing.T, c *cluster) {
	begun, before := time.Now(), c.pod(t.Context(), t, c.nodes[0])
	c.helm(t, "upgrade", "--reuse-values", "--set", "args={-v=2}")
	c.rolledOut(t)
	after := c.running(t, "the new manager is ready", c.nodes[0], anyPod)
	t.Logf("figure: from helm upgrade to a ready manager: %.1f s", time.Since(begun).Seconds())
	if after.UID == before.UID || !slices.Contains(after.Spec.Containers[0].Args, "-v=2") {
		t.Errorf("pod %s after %s, with the arguments %q", after.Name, before.Name, after.Spec.Containers[0].Args)
	}
	c.served(t, "upgraded")
}

// testUninstall removes the manager, whose work stays, and installs it again, by
// the other way.
func testUninstall(t *testing.T, c *cluster) {
	c.kubectl(t, "delete", "services", "--field-selector=spec.type=LoadBalancer")
	begun := time.Now()
	c.kubectl(t, "-n", namespace, "delete", "daemonset", workload, "--cascade=foreground", "--ignore-not-found")
	c.helm(t, "uninstall")
	t.Logf("figure: the manager is uninstalled in %.1f s", time.Since(begun).Seconds())
	// Nothing is suspected when it is installed again.
	if book := c.state(t.Context(), t).Trials; strings.Contains(book, `"marks"`) {
		t.Errorf("a manager that was uninstalled has left marks: %s", book)
	}
	pods, err := c.admin.CoreV1().Pods(namespace).List(t.Context(), options())
	if err != nil || len(pods.Items) > 0 {
		t.Errorf("%d managers, %v", len(pods.Items), err)
	}
	left, err := c.quietly(t, "get", "all,roles,rolebindings,clusterroles,clusterrolebindings,serviceaccounts,configmaps", "-A", "-l", "app.kubernetes.io/part-of=wasm-ccm", "-o", "name")
	if err != nil || left != "" {
		t.Errorf("left of the release: %s, %v", left, err)
	}
	c.kubectl(t, "-n", namespace, "get", "configmaps,leases")
	if n := c.get(t.Context(), "cp-1"); !ready(n) || n.Spec.ProviderID == "" {
		t.Errorf("Node %v", n)
	}
}

// testKustomize installs without Helm.
func testKustomize(t *testing.T, c *cluster) {
	c.offer(t, "replace", module("static.wasm"), configuration(t, 1))
	c.kubectl(t, "apply", "--server-side", "-k", manifests(t))
	c.rolledOut(t)
	c.served(t, "by-kustomize")
}
