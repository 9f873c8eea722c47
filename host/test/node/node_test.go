//go:build node

package node_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const containerdConfig = `version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "` + pauseImage + `"
[plugins.'io.containerd.cri.v1.runtime']
  # A container may lack the right to lower a score.
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["/usr/lib/cni"]
  conf_dir = "` + cniDir + `"
`

// kubeletConfig leaves to the kubelet its defaults, but for the machine's
// cgroup, how soon it looks at ConfigMaps, and its client's certificates.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %q}}
authorization: {mode: Webhook}
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: %q
failCgroupV1: false
failSwapOn: false
syncFrequency: 10s
volumePluginDir: /var/lib/kubelet/volumeplugins
evictionHard: {memory.available: 50Mi, nodefs.available: 1%%, imagefs.available: 1%%, nodefs.inodesFree: 1%%}
registerWithTaints: [{key: node-role.kubernetes.io/control-plane, effect: NoSchedule}]
`

const (
	cniDir = "/var/lib/cni/net.d"
	// cniConfig is the network of pods of one node.
	cniConfig = `{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true,
"ipam": {"type": "host-local", "dataDir": "/var/lib/cni/ipam", "ranges": [[{"subnet": "10.244.%d.0/24"}]]}}]}`
)

// node is a machine with containerd and a kubelet, of the control plane.
type node struct {
	*machine
	number              int
	arguments           []string // of the kubelet
	containerd, kubelet *process
}

// join makes a machine, imports the images and starts its kubelet. The Node has
// no network of pods yet.
func (c *cluster) join(t *testing.T, number int, arguments ...string) *node {
	t.Helper()
	n := c.start(t, number, append([]string{"--cloud-provider=external"}, arguments...)...)
	c.kubectl(t, "label", "--overwrite", "node", n.name, "node-role.kubernetes.io/control-plane=")
	return n
}

// start is join for a Node on which no manager is to run.
func (c *cluster) start(t *testing.T, number int, arguments ...string) *node {
	t.Helper()
	n := &node{machine: newMachine(t, number), number: number}
	// What kube-proxy would do, for the only Service that the manager needs.
	n.run(t, "iptables", "-t", "nat", "-A", "OUTPUT", "-d", serviceAddress, "-p", "tcp", "--dport", "443", "-j", "DNAT", "--to-destination", bridgeAddress+":6443")
	n.startContainerd(t)
	c.nodes = append(c.nodes, n)
	n.arguments = append([]string{
		"--config=" + n.write(t, "/var/lib/kubelet.yaml", fmt.Sprintf(kubeletConfig, c.authority.crt("ca"), n.cgroup)),
		"--kubeconfig=" + c.authority.kubeconfig(t, n.name, "system:node:"+n.name, "system:nodes"),
		"--hostname-override=" + n.name, "--v=2",
	}, arguments...)
	for _, image := range []string{pauseArchive(t), managerArchive()} {
		n.importImage(t, image)
	}
	n.startKubelet(t)
	c.registered(t, n)
	return n
}

func (c *cluster) registered(t *testing.T, n *node) {
	t.Helper()
	c.await(t, "Node "+n.name+" is registered", time.Minute, func(ctx context.Context) bool {
		_, err := c.admin.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
		return err == nil
	})
}

// write puts a file onto the machine and returns its name there.
func (n *node) write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(n.file(path)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(n.file(path), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func (n *node) startContainerd(t *testing.T) {
	t.Helper()
	config := n.write(t, "/var/lib/containerd.toml", containerdConfig)
	cmd := n.command(context.Background(), asset("containerd"), "--config="+config)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(asset("containerd"))+":"+os.Getenv("PATH")) // of the shim
	n.containerd = launch(t, "containerd-"+n.name, cmd)
	var refused error
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		refused = n.askCRI(ctx)
		return refused == nil || n.containerd.ended(), nil
	}); err != nil || refused != nil {
		t.Fatalf("%v\n%s", refused, tail(logFile(n.containerd.name)))
	}
}

func (n *node) startKubelet(t *testing.T) {
	t.Helper()
	n.kubelet = launch(t, "kubelet-"+n.name, n.command(context.Background(), asset("kubelet"), n.arguments...))
}

func (n *node) ctr(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	return n.command(t.Context(), asset("ctr"), append([]string{"--namespace", "k8s.io"}, args...)...).CombinedOutput()
}

func (n *node) importImage(t *testing.T, archive string) {
	t.Helper()
	if out, err := n.ctr(t, "images", "import", archive); err != nil {
		t.Fatalf("importing %s on %s: %v: %s", archive, n.name, err, out)
	}
}

// connect gives the node a network of pods, as a CNI does that has waited for
// the Node to be initialised.
func (n *node) connect(t *testing.T) {
	t.Helper()
	n.write(t, cniDir+"/10-pods.conflist", fmt.Sprintf(cniConfig, n.number))
}

// get is the Node as the API server has it; an empty one when it is not there.
func (c *cluster) get(ctx context.Context, name string) *corev1.Node {
	n, err := c.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return &corev1.Node{}
	}
	return n
}

func ready(n *corev1.Node) bool {
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// initialized says whether the manager has done its work for a Node.
func initialized(n *corev1.Node) bool {
	for _, taint := range n.Spec.Taints {
		if taint.Key == "node.cloudprovider.kubernetes.io/uninitialized" {
			return false
		}
	}
	return n.Spec.ProviderID != ""
}
