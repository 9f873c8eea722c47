package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The status page through ccmctl dashboard, as a browser asks for it: with the key
// of the address alone, and no other way.
func TestDashboard(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	t.Parallel() // it has a control plane of its own
	r := newRig(t, "e2e-dashboard")
	address := r.stuckDashboard(t)
	code, page, header := r.visit(t, http.MethodGet, address, "")
	if code != http.StatusOK || !strings.Contains(page, "Service e2e-dashboard/web") || !strings.Contains(page, "Stuck") {
		t.Errorf("%s: %d\n%s", address, code, page)
	}
	if policy := header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none';") {
		t.Errorf("the page may load what it likes: %q", policy)
	}
	code, page, _ = r.visit(t, http.MethodGet, strings.TrimSuffix(address, "status")+"why?kind=Service&namespace=e2e-dashboard&name=web", "")
	if code != http.StatusOK || !strings.Contains(page, "What to do") {
		t.Errorf("the Service: %d\n%s", code, page)
	}
	key := strings.Split(address, "/")[3]
	for _, test := range []struct {
		name, method, address, host string
		code                        int
	}{
		{"no key", http.MethodGet, strings.Replace(address, key+"/", "", 1), "", http.StatusNotFound},
		{"a wrong key", http.MethodGet, strings.Replace(address, key, strings.Repeat("A", len(key)), 1), "", http.StatusNotFound},
		{"another name for this machine", http.MethodGet, address, "evil.example.com", http.StatusNotFound},
		{"a change", http.MethodPost, address, "", http.StatusMethodNotAllowed},
		{"what else the manager serves", http.MethodGet, strings.Replace(address, "wasm-ccm/status", "metrics", 1), "", http.StatusNotFound},
		{"a way out", http.MethodGet, strings.Replace(address, "wasm-ccm/status", "wasm-ccm/../metrics", 1), "", http.StatusNotFound},
	} {
		if code, page, _ := r.visit(t, test.method, test.address, test.host); code != test.code {
			t.Errorf("%s: %d, want %d\n%.300s", test.name, code, test.code, page)
		}
	}
}

// stuckDashboard starts a manager with a Service that is stuck, and ccmctl dashboard;
// it returns the address for a browser.
func (r *rig) stuckDashboard(t *testing.T) (address string) {
	t.Helper()
	// Without a pool no Service gets an address.
	r.put(t.Context(), t, "provider", r.wasm(t, "static.wasm"), "machines: [{name: worker-1, zone: a, addresses: [{type: InternalIP, address: 10.0.0.1}]}]\npools: []\n")
	m := r.startManager(t, "a", r.hostConfiguration(t, "- name: metal\n  source: {configMap: {namespace: $NS, name: provider}}\n  capabilities: [store, cache, nodes, event]\n"))
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"}, Annotations: map[string]string{"meta.helm.sh/release-name": "web"}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
	if _, err := r.client.CoreV1().Services(r.namespace).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(r.dir, "token")
	r.viewerToken(t, token)
	address = r.dashboard(t, m, token)
	seen := 0 // one after the other: the op that runs first is shown, too, and ends
	r.until(t.Context(), t, m, "the page goes on showing the Service that is stuck", func() (bool, string) {
		_, page, _ := r.visit(t, http.MethodGet, address, "")
		if seen++; !strings.Contains(page, r.namespace+"/web") {
			seen = 0
		}
		return seen >= 20, page
	})
	return address
}

func (r *rig) viewerToken(t *testing.T, file string) {
	t.Helper()
	token, err := tokenOf(t.Context(), r.client, r.namespace, viewerAccount)
	if err == nil {
		err = allowViewer(t.Context(), r.client, r.namespace)
	}
	if err == nil {
		err = os.WriteFile(file, []byte(token), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// dashboard starts ccmctl dashboard, which ends with the test.
func (r *rig) dashboard(t *testing.T, m *manager, token string) (address string) {
	t.Helper()
	address, err := bufio.NewReader(r.speaking(t, m, token, "dashboard")).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(address)
}

// mostSpeaking is how long a program may speak, so that one that says nothing ends a
// test, too.
const mostSpeaking = 5 * time.Minute

// speaking starts a command of ccmctl that goes on until Ctrl-C, which the end of the
// test is; it must end well. What it says is returned.
func (r *rig) speaking(t *testing.T, m *manager, token string, args ...string) io.Reader {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), mostSpeaking)
	args = append(args, "--kubeconfig="+r.cluster.Kubeconfig(), "--server=https://"+m.secure, "--token-file="+token, "--insecure-skip-tls-verify")
	c := exec.CommandContext(ctx, filepath.Join(r.build, "ccmctl"), args...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	var complaints bytes.Buffer
	c.Stderr = &complaints
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_, _ = io.Copy(io.Discard, out)
		if err := c.Wait(); c.ProcessState.ExitCode() != 0 {
			t.Errorf("ccmctl %q ends with %v\n%s", args, err, complaints.String())
		}
	})
	return out
}

// visit asks as a browser does.
func (r *rig) visit(t *testing.T, method, address, host string) (code int, page string, header http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Sprint(err), nil
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return response.StatusCode, string(data), response.Header
}
