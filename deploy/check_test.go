package deploy_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// checked is a cluster with a manager that is installed by the chart and leads, and
// how ccmctl reaches it.
type checked struct {
	cluster
	dir, log string
	// config is the file in which the manager has its HostConfiguration.
	config  string
	manager []string
}

// TestCheck makes mistakes on purpose, one after the other. ccmctl check finds each,
// and nothing before the first and after each.
func TestCheck(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	depend(t)
	c := newChecked(t)
	c.clean(t, "nothing is wrong")
	for _, m := range mistakes() {
		t.Run(strings.TrimSpace(m.reason+" "+m.name), func(t *testing.T) {
			if m.make != nil {
				mend := m.make(t, c)
				defer c.clean(t, "it is mended")
				defer mend()
			}
			c.finds(t, m)
		})
	}
	t.Run("rights of who asks", func(t *testing.T) { testCheckUnprivileged(t, c) })
}

func newChecked(t *testing.T) *checked {
	t.Helper()
	c := &checked{cluster: start(t), dir: t.TempDir()}
	c.kubectl(t, configMapCommand(t, namespace, built(t, "static.wasm"))...)
	var secure string
	c.log, secure, c.config = c.runManagerAt(t, namespace, "chart/examples/static.yaml")
	createNode(t, c.cluster)
	await(t, c.log, "the node is initialised", func(ctx context.Context) (bool, error) {
		node, err := c.admin.CoreV1().Nodes().Get(ctx, "m1", metav1.GetOptions{})
		return err == nil && initialised(node), err
	})
	token, err := c.admin.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), manager+"-viewer", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.manager = []string{"--server=" + secure, "--token-file=" + c.file(t, token.Status.Token), "--insecure-skip-tls-verify"}
	c.managerPod(t)
	return c
}

// managerPod is in the place of the Pod that no kubelet runs: the manager is a
// process of this machine.
func (c *checked) managerPod(t *testing.T) {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	template := podTemplate(t, render(t, "chart/examples/static.yaml"))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(host), Namespace: namespace, Labels: template.Labels}, Spec: template.Spec}
	pod.Spec.NodeName = "m1"
	if pod, err = c.admin.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	if _, err := c.admin.CoreV1().Pods(namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *checked) file(t *testing.T, content string) string {
	t.Helper()
	f, err := os.CreateTemp(c.dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteString(content); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// check runs ccmctl check as an administrator.
func (c *checked) check(ctx context.Context, t *testing.T, kubeconfig string, args ...string) (out string, err error) {
	t.Helper()
	cmd := exec.CommandContext(ctx, built(t, "ccmctl"), append(append([]string{"check", "--kubeconfig=" + kubeconfig, "--patience=1s"}, c.manager...), args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if ctx.Err() != nil {
		return "it did not end: " + stdout.String() + stderr.String(), err
	}
	return stdout.String() + stderr.String(), err
}

// clean waits until nothing is found: the API server's authorizer and the manager
// learn by watches of what was mended.
func (c *checked) clean(t *testing.T, when string) {
	t.Helper()
	var out string
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, patience/3, true, func(context.Context) (bool, error) {
		var err error
		out, err = c.check(t.Context(), t, c.kubeconfig)
		return err == nil && strings.HasPrefix(out, "0 errors, 0 warnings, 0 not checked, "), nil
	})
	if err != nil {
		t.Fatalf("%s, and ccmctl check says\n%s", when, out)
	}
}

// finds waits until a mistake is found by its words, with a way to mend it.
func (c *checked) finds(t *testing.T, m mistake) {
	t.Helper()
	want := regexp.MustCompile(`(?m)^` + m.severity + ` +` + m.reason + ` +` + m.says + `.*$`)
	var args []string
	if m.plan != nil {
		args = []string{"-f", c.file(t, m.plan(t))}
	}
	var out string
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, patience/3, true, func(context.Context) (bool, error) {
		var err error
		out, err = c.check(t.Context(), t, c.kubeconfig, append(args, m.args...)...)
		return want.MatchString(out) && strings.Contains(want.FindString(out), " -> ") && (err != nil) == (m.severity == "error"), nil
	})
	if err != nil {
		t.Fatalf("want %s in\n%s", want, out)
	}
	t.Log(want.FindString(out))
}

// testCheckUnprivileged: who may read next to nothing hears what was not checked.
func testCheckUnprivileged(t *testing.T, c *checked) {
	c.kubectl(t, "-n", "default", "create", "serviceaccount", "visitor")
	token := strings.TrimSpace(string(c.kubectl(t, "-n", "default", "create", "token", "visitor")))
	kubeconfig := filepath.Join(c.dir, "visitor.kubeconfig")
	content, err := os.ReadFile(serviceAccountKubeconfig(t, c.cluster, namespace))
	if err != nil {
		t.Fatal(err)
	}
	content = regexp.MustCompile(`token: .*`).ReplaceAll(content, []byte("token: "+token))
	if err := os.WriteFile(kubeconfig, content, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := c.check(t.Context(), t, kubeconfig)
	if err != nil || !strings.Contains(out, "unknown") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, want := range []string{"nodes: not checked: you may not read it", "pods of all namespaces: not checked", "configmap kube-system/cloud-controller-manager: not checked"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}
