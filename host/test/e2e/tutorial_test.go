package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// tutorialCloud is where the cloud of guests/README.md listens.
const tutorialCloud = "127.0.0.1:18080"

// TestTutorial runs each command of "Write a provider in ten minutes" of
// guests/README.md, as it stands there, in a repository outside of this one,
// and looks at the Node that the provider has initialised.
//
// One thing differs from what a reader does: until this repository's modules
// are published, go.mod needs to be told where they are (replace).
func TestTutorial(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	repository, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	cluster := startCluster(t)
	dir := t.TempDir()
	if err := os.Symlink(repository, filepath.Join(dir, "wasm-ccm")); err != nil {
		t.Fatal(err)
	}
	if l, err := net.Listen("tcp", tutorialCloud); err != nil {
		t.Fatalf("the cloud of the tutorial cannot listen: %v", err)
	} else if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := cluster.AdminKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	uninitialised := corev1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{uninitialised}}}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	runTutorial(t, dir, tutorial(t, filepath.Join(repository, "guests", "README.md")), map[string]string{
		"KUBECONFIG": kubeconfig, "PATH": filepath.Dir(cluster.Kubectl()) + ":" + os.Getenv("PATH"), "TMPDIR": dir,
	})
	got, err := client.CoreV1().Nodes().Get(t.Context(), "worker-1", metav1.GetOptions{})
	if err != nil || got.Spec.ProviderID != "example://worker-1" || slices.Contains(got.Spec.Taints, uninitialised) {
		t.Errorf("the Node has the provider ID %q and the taints %v: %v", got.Spec.ProviderID, got.Spec.Taints, err)
	}
}

// tutorial returns the commands of the section, one a line.
func tutorial(t *testing.T, path string) (commands []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Write a provider in ten minutes\n")
	section, _, ends := strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(section, -1)
	if !found || !ends || len(blocks) < 5 {
		t.Fatalf("%s: %d blocks of commands", path, len(blocks))
	}
	for _, block := range blocks {
		commands = append(commands, strings.Split(strings.TrimSpace(block[1]), "\n")...)
	}
	return commands
}

// runTutorial runs the commands in one shell, which ends at the first that
// fails, and all that it has started with it.
func runTutorial(t *testing.T, dir string, commands []string, environment map[string]string) {
	t.Helper()
	script := "set -eux\n"
	for _, command := range commands {
		script += command + "\n"
		if strings.HasPrefix(command, "go mod init ") {
			// The one difference, see TestTutorial.
			for _, module := range []string{"abi", "guests"} {
				script += "go mod edit -replace github.com/wasm-ccm/wasm-ccm/" + module + "=../wasm-ccm/" + module + "\n"
			}
		}
	}
	script += waitForNode
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = dir
	// The Makefile has flags of its own for who has none.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GOFLAGS=") })
	for name, value := range environment {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	output, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	// What it has left in the background is of its process group.
	if gone := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); gone != nil && err == nil {
		err = fmt.Errorf("nothing runs in the background any more: %w", gone)
	}
	text := readFile(output.Name())
	if err != nil {
		t.Fatalf("%v; the last of its output:\n%s", err, text[max(0, len(text)-16<<10):])
	}
	if !strings.Contains(text, " 0 failed, ") {
		t.Errorf("no report of the kit in\n%s", text)
	}
	t.Logf("%s", text[max(0, len(text)-8<<10):])
}

// waitForNode is what TestTutorial looks at.
const waitForNode = "kubectl wait --for=jsonpath='{.spec.providerID}'=example://worker-1 --timeout=60s node/worker-1\n"
