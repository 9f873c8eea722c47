package deploy_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// patience bounds each wait.
const patience = time.Minute

// testManager runs the manager as the DaemonSet does: with its arguments, its
// HostConfiguration and the token of its ServiceAccount, the configuration of the
// provider being in the values. It must initialise a Node and give a
// Service an address without asking for a right that it lacks.
func testManager(t *testing.T, c cluster) {
	c.kubectl(t, configMapCommand(t, namespace, built(t, "static.wasm"))...)
	log := c.runManager(t, namespace, "chart/examples/static.yaml")
	createNode(t, c)
	await(t, log, "the node is initialised", func(ctx context.Context) (bool, error) {
		node, err := c.admin.CoreV1().Nodes().Get(ctx, "m1", metav1.GetOptions{})
		return err == nil && initialised(node), err
	})
	createService(t, c)
	await(t, log, "the service has an address", func(ctx context.Context) (bool, error) {
		service, err := c.admin.CoreV1().Services("default").Get(ctx, "web", metav1.GetOptions{})
		return err == nil && len(service.Status.LoadBalancer.Ingress) > 0, err
	})
	if _, err := c.admin.CoreV1().ConfigMaps(namespace).Get(t.Context(), "wasm-ccm-store-static", metav1.GetOptions{}); err != nil {
		t.Errorf("the store that the role names: %v", err)
	}
	await(t, log, "the rollout is kept where the role names it", func(ctx context.Context) (bool, error) {
		status, err := c.admin.CoreV1().ConfigMaps(namespace).Get(ctx, "wasm-ccm-provider-static", metav1.GetOptions{})
		return err == nil && status.Labels["wasm-ccm.dev/phase"] == "Kept", err
	})
	await(t, log, "the module is where the role names it", func(ctx context.Context) (bool, error) { // when it has passed its trial
		_, err := c.admin.CoreV1().ConfigMaps(namespace).Get(ctx, "wasm-ccm-module-static-a0", metav1.GetOptions{})
		return err == nil, ignoreNotFound(err)
	})
	checkAccount(t, c)
	checkRights(t, log)
}

// checkAccount: what the manager runs is marked with the account that it has, so
// that the next installation does not blame it.
func checkAccount(t *testing.T, c cluster) {
	t.Helper()
	account, err := c.admin.CoreV1().ServiceAccounts(namespace).Get(t.Context(), manager, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	status, err := c.admin.CoreV1().ConfigMaps(namespace).Get(t.Context(), "wasm-ccm-provider-static", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`"account":{"name":"system:serviceaccount:%s:%s","uid":"%s"}`, namespace, manager, account.UID)
	if got := status.Data["trials"]; !strings.Contains(got, want) {
		t.Errorf("the trials are %s, want %s in them", got, want)
	}
}

func checkRights(t *testing.T, log string) {
	t.Helper()
	for _, line := range strings.Split(readLog(log), "\n") {
		if strings.Contains(line, "forbidden") {
			t.Errorf("the manager lacks a right: %s", line)
		}
	}
}

// runManager installs the chart in a namespace and runs the manager until the
// test ends. It returns the file of its log when the manager is ready.
func (c cluster) runManager(t *testing.T, where, example string) (log string) {
	t.Helper()
	log, _, _ = c.runManagerAt(t, where, example)
	return log
}

// runManagerAt also returns the URL of the secure port.
func (c cluster) runManagerAt(t *testing.T, where, example string) (log, secure, config string) {
	t.Helper()
	c.install(t, "--namespace="+where, example)
	rendered := render(t, "--namespace="+where, example)
	probe := freeAddress(t)
	log = filepath.Join(t.TempDir(), "manager.log")
	kubeconfig := serviceAccountKubeconfig(t, c, where)
	_, port, err := net.SplitHostPort(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	config = filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, hostConfiguration(t, rendered), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, log, built(t, manager), append(podTemplate(t, rendered).Spec.Containers[0].Args, "--config="+config,
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--provider-compilation-cache-dir="+filepath.Join(t.TempDir(), "compiled"), "--health-probe-bind-address="+probe, "--bind-address=127.0.0.1", "--secure-port="+port))
	await(t, log, "the manager is ready", func(ctx context.Context) (bool, error) { return ready(ctx, "http://"+probe+"/readyz"), nil })
	return log, "https://127.0.0.1:" + port, config
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// initialised looks for the taint of the cloud provider only: the API server
// taints a Node that is not ready, and there is no kubelet.
func initialised(node *corev1.Node) bool {
	tainted := slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key == cloudproviderapi.TaintExternalCloudProvider
	})
	return !tainted && node.Spec.ProviderID != ""
}

// configMapCommand is the command of docs/install.md. A module that is too large for
// a ConfigMap, as that of stock Go, is compressed.
func configMapCommand(t *testing.T, where, module string) []string {
	t.Helper()
	content, err := os.ReadFile(module)
	if err != nil {
		t.Fatal(err)
	}
	key := "provider.wasm"
	if len(content) > 900<<10 {
		key = "provider.wasm.gz"
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		module = filepath.Join(t.TempDir(), key)
		if err := os.WriteFile(module, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"-n", where, "create", "configmap", "cloud-provider-static", "--from-file=" + key + "=" + module}
}

func serviceAccountKubeconfig(t *testing.T, c cluster, where string) string {
	t.Helper()
	token, err := c.admin.CoreV1().ServiceAccounts(where).CreateToken(t.Context(), manager, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"test": {Server: c.config.Host, CertificateAuthorityData: c.config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"test": {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "test"}},
		CurrentContext: "test",
	}
	path := filepath.Join(t.TempDir(), "manager.kubeconfig")
	if err := clientcmd.WriteToFile(config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// run starts the manager; it ends with the test.
func run(t *testing.T, log, binary string, args []string) {
	t.Helper()
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
		_ = out.Close()
	})
}

func createNode(t *testing.T, c cluster) {
	t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "m1"},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}},
	}
	if _, err := c.admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func createService(t *testing.T, c cluster) {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if _, err := c.admin.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func await(t *testing.T, log, what string, condition wait.ConditionWithContextFunc) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, condition); err != nil {
		text := readLog(log)
		t.Fatalf("%s: %v; the end of its log:\n%s", what, err, text[max(0, len(text)-8<<10):])
	}
}

func ready(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode == http.StatusOK
}

func readLog(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(content)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}
