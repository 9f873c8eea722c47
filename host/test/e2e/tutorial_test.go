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

// tutorialCloud is where the cloud of guests/TUTORIAL.md listens.
const tutorialCloud = "127.0.0.1:18080"

// tutorialVersion is that of the SDK and of ccmctl in the tutorial.
const tutorialVersion = "v0.2.0"

// TestTutorial runs each command of guests/TUTORIAL.md, as it stands there, in
// an empty directory outside of this repository, and looks at the Node and the
// Service. The SDK comes by its version from a directory for GOPROXY, as a
// release has one.
func TestTutorial(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	t.Parallel() // it has a control plane of its own
	repository, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	cluster := startCluster(t)
	dir := t.TempDir()
	environment := releaseFor(t, repository)
	if l, err := net.Listen("tcp", tutorialCloud); err != nil {
		t.Fatalf("the cloud of the tutorial cannot listen: %v", err)
	} else if err := l.Close(); err != nil {
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
	environment["KUBECONFIG"], environment["TMPDIR"] = cluster.Kubeconfig(), dir
	environment["PATH"] = environment["PATH"] + ":" + filepath.Dir(cluster.Kubectl()) + ":" + os.Getenv("PATH")
	runTutorial(t, dir, tutorial(t, filepath.Join(repository, "guests", "TUTORIAL.md")), environment)
	got, err := client.CoreV1().Nodes().Get(t.Context(), "worker-1", metav1.GetOptions{})
	if err != nil || got.Spec.ProviderID != "mycloud://worker-1" || slices.Contains(got.Spec.Taints, uninitialised) {
		t.Errorf("the Node has the provider ID %q and the taints %v: %v", got.Spec.ProviderID, got.Spec.Taints, err)
	}
}

// releaseFor is what an author has of a release: its ccmctl and manager on PATH,
// and its Go modules. The cache of modules is one of its own, since the version
// is none that others may see.
func releaseFor(t *testing.T, repository string) map[string]string {
	t.Helper()
	dir, settings := t.TempDir(), map[string]string{}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPROXY"} {
		out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		settings[name] = strings.TrimSpace(string(out))
	}
	stamp := "-s -w -X github.com/wasm-ccm/wasm-ccm/host/internal/version.release=" + tutorialVersion
	for _, args := range [][]string{
		{"run", "./deploy/gomodules", "-version", tutorialVersion, "-o", filepath.Join(dir, "go-modules")},
		{"build", "-ldflags", stamp, "-o", filepath.Join(dir, "bin", "ccmctl"), "./host/cmd/ccmctl"},
	} {
		c := exec.CommandContext(t.Context(), "go", args...)
		c.Dir = repository
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
	return map[string]string{
		"PATH":    filepath.Join(dir, "bin") + ":" + os.Getenv("CCM_BUILD"),
		"GOPROXY": "file://" + dir + "/go-modules,file://" + settings["GOMODCACHE"] + "/cache/download," + settings["GOPROXY"],
		"GOFLAGS": "-modcacherw", "GOMODCACHE": filepath.Join(dir, "modules"), "GONOSUMDB": "github.com/wasm-ccm/wasm-ccm/*", "GOWORK": "off",
		"XDG_CACHE_HOME": filepath.Join(dir, "cache"), "GOCACHE": settings["GOCACHE"],
	}
}

// tutorial returns the commands, one a line.
func tutorial(t *testing.T, path string) (commands []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 4 {
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
	script := "set -eux\n" + strings.Join(commands, "\n") + "\n"
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = dir
	cmd.Env = os.Environ()
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
	for _, said := range []string{" 0 failed, ", "service/web condition met"} {
		if !strings.Contains(text, said) {
			t.Errorf("no %q in\n%s", said, text)
		}
	}
	t.Logf("%s", text[max(0, len(text)-8<<10):])
}
