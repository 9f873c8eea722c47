//go:build node

package node_test

import (
	"bytes"
	"context"
	"crypto/x509/pkix"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// serviceAddress is that of the Service kubernetes.
const serviceAddress = "10.96.0.1"

// cluster is a control plane on the bridge, and nodes beside it.
type cluster struct {
	authority  *authority
	kubeconfig string // of its administrator
	admin      kubernetes.Interface
	processes  []*process
	nodes      []*node
}

// startCluster starts the control plane and waits until it serves.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	pki := filepath.Join(data(), "pki")
	for _, dir := range []string{pki, filepath.Join(data(), "log")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := &cluster{authority: newAuthority(t, pki)}
	c.kubeconfig = c.authority.kubeconfig(t, "admin", "admin", "system:masters")
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	if c.admin, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.explain(t) })
	c.startServer(t)
	c.startControllers(t)
	return c
}

func (c *cluster) startServer(t *testing.T) {
	t.Helper()
	a := c.authority
	a.issue(t, "apiserver", pkix.Name{CommonName: "kube-apiserver"}, serviceAddress, bridgeAddress)
	a.issue(t, "kubelet-client", pkix.Name{CommonName: "kube-apiserver-kubelet-client", Organization: []string{"system:masters"}})
	a.issue(t, "front-proxy", pkix.Name{CommonName: "front-proxy-client"})
	a.issue(t, "accounts", pkix.Name{CommonName: "service-accounts"})
	c.launch(t, "etcd", asset("etcd"), "--data-dir="+filepath.Join(data(), "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379", "--listen-peer-urls=http://127.0.0.1:2380")
	c.launch(t, "kube-apiserver", asset("kube-apiserver"), "--etcd-servers=http://127.0.0.1:2379",
		"--advertise-address="+bridgeAddress, "--secure-port=6443", "--service-cluster-ip-range=10.96.0.0/16",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--tls-cert-file="+a.crt("apiserver"), "--tls-private-key-file="+a.pem("apiserver"), "--client-ca-file="+a.crt("ca"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-signing-key-file="+a.pem("accounts"), "--service-account-key-file="+a.crt("accounts"),
		// As kubeadm does: a name of a machine need not be known here.
		"--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname", "--kubelet-client-certificate="+a.crt("kubelet-client"), "--kubelet-client-key="+a.pem("kubelet-client"),
		"--requestheader-client-ca-file="+a.crt("ca"), "--requestheader-allowed-names=front-proxy-client", "--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file="+a.crt("front-proxy"), "--proxy-client-key-file="+a.pem("front-proxy"))
	c.await(t, "kube-apiserver is ready", time.Minute, func(ctx context.Context) bool {
		_, err := c.admin.CoreV1().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil
	})
}

func (c *cluster) startControllers(t *testing.T) {
	t.Helper()
	a := c.authority
	config := a.kubeconfig(t, "kube-controller-manager", "system:kube-controller-manager")
	c.launch(t, "kube-controller-manager", asset("kube-controller-manager"), "--kubeconfig="+config, "--leader-elect=false", "--cloud-provider=external",
		"--use-service-account-credentials=true", "--service-account-private-key-file="+a.pem("accounts"), "--root-ca-file="+a.crt("ca"),
		"--flex-volume-plugin-dir="+filepath.Join(data(), "flexvolumes"))
	config = a.kubeconfig(t, "kube-scheduler", "system:kube-scheduler")
	c.launch(t, "kube-scheduler", asset("kube-scheduler"), "--kubeconfig="+config, "--leader-elect=false")
}

func (c *cluster) launch(t *testing.T, name, program string, args ...string) {
	t.Helper()
	c.processes = append(c.processes, launch(t, name, exec.Command(program, args...)))
}

// try runs kubectl, which writes to the log of the test what a user would see.
func (c *cluster) try(ctx context.Context, t *testing.T, args ...string) (string, error) {
	t.Helper()
	return record(t, c.command(ctx, asset("kubectl"), args...))
}

// command is one of a user with the administrator's rights.
func (c *cluster) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = repository()
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	return cmd
}

// quietly runs kubectl for its output only.
func (c *cluster) quietly(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := c.command(t.Context(), asset("kubectl"), args...).Output()
	return string(out), err
}

// kubectl is try for what has to succeed.
func (c *cluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.try(t.Context(), t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// record runs a command as a user would, and logs it with its output and time.
func record(t *testing.T, cmd *exec.Cmd) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	begun := time.Now()
	err := cmd.Run()
	args := append([]string{filepath.Base(cmd.Args[0])}, cmd.Args[1:]...)
	t.Logf("$ %s   # %.1f s\n%s", strings.ReplaceAll(strings.Join(args, " "), repository()+"/", ""), time.Since(begun).Seconds(), out.Bytes())
	return out.String(), err
}

// await polls until the condition holds, and logs how long it took.
func (c *cluster) await(t *testing.T, what string, patience time.Duration, condition func(ctx context.Context) bool) {
	t.Helper()
	begun := time.Now()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		return condition(ctx), nil
	})
	if err != nil {
		t.Fatalf("%s: not after %v", what, patience)
	}
	t.Logf("%s: after %.1f s", what, time.Since(begun).Seconds())
}

// explain logs what may help to understand a failure.
func (c *cluster) explain(t *testing.T) {
	if !t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, args := range [][]string{
		{"get", "nodes,pods,services,leases", "-A", "-o", "wide"}, {"get", "events", "-A", "--sort-by=.lastTimestamp"},
		{"-n", namespace, "describe", "pods"}, {"-n", namespace, "logs", "-l", selector, "--tail=200"},
	} {
		_, _ = c.try(ctx, t, args...)
	}
	all := c.processes
	for _, n := range c.nodes {
		all = append(all, n.kubelet, n.containerd)
	}
	for _, p := range all {
		if p != nil {
			t.Logf("%s, ended %v:\n%s", p.name, p.ended(), tail(logFile(p.name)))
		}
	}
}

// options are those of a list of the manager's pods.
func options() metav1.ListOptions { return metav1.ListOptions{LabelSelector: selector} }
