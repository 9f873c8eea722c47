package e2e

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A user sees the version of this project, and Kubernetes' libraries theirs.
func TestReleasedBinarySaysItsVersion(t *testing.T) {
	binary := filepath.Join(buildDir(t), "cloud-controller-manager")
	said := strings.TrimSpace(output(t, binary, "--version"))
	line := regexp.MustCompile(`^cloud-controller-manager (v\d+\.\d+\.\d+\S*) \(commit ([0-9a-f]{12}), Kubernetes libraries v1\.\d+\.\d+, go1\.\S+, linux/\w+\)$`)
	found := line.FindStringSubmatch(said)
	if found == nil || strings.HasPrefix(found[1], "v1.") {
		t.Fatalf("--version says %q, want %s", said, line)
	}
	if raw := output(t, binary, "--version=raw"); !strings.Contains(raw, `GitVersion:"v1.`) || !strings.Contains(raw, "+wasm-ccm."+strings.ReplaceAll(found[1][1:], "+", ".")) {
		t.Errorf("the libraries take the program for %s", raw)
	}
	agent, release := userAgent(t, binary), strings.SplitN(found[1], "-", 2)[0]
	if want := "cloud-controller-manager/" + release + " (linux/"; !strings.HasPrefix(agent, want) {
		t.Errorf("the API server sees %q, want %s...", agent, want)
	}
}

// userAgent is what a manager says of itself to its API server.
func userAgent(t *testing.T, binary string) string {
	t.Helper()
	agents := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case agents <- r.UserAgent():
		default:
		}
		http.Error(w, "it is only asked for its name", http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	c := exec.CommandContext(t.Context(), binary, "--master="+server.URL, "--provider-configmap=kube-system/provider", "--secure-port=0", "--health-probe-bind-address=127.0.0.1:0")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	select {
	case agent := <-agents:
		return agent
	case <-time.After(reportPatience):
		t.Fatal("the manager asked nothing of its API server")
		return ""
	}
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}
