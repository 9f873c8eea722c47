package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// callsManager gives its answers in turn, and then repeats the last.
type callsManager struct {
	mu      sync.Mutex
	answers []*v1alpha1.Calls // nil: 503
	done    func()
}

func (m *callsManager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.URL.Path != v1alpha1.CallsPath || len(m.answers) == 0 {
		m.done()
		w.WriteHeader(http.StatusNotFound)
		return
	}
	answer := m.answers[0]
	m.answers = m.answers[1:]
	if answer == nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	_ = json.NewEncoder(w).Encode(answer) // ccmctl reports a short answer
}

// callsOf are calls of the provider p with these numbers, the newest first.
func callsOf(host string, numbers ...int64) *v1alpha1.Calls {
	all := &v1alpha1.Calls{Manager: v1alpha1.Manager{Host: host, Leads: true}}
	for _, n := range numbers {
		all.Latest = append(all.Latest, v1alpha1.Call{
			Provider: "p", Number: n, At: metav1.NewMicroTime(time.Unix(n, 0)), Status: 200,
			CallKind: v1alpha1.CallKind{Op: "probe", Host: "[::1]:443", Method: "GET", Path: fmt.Sprint("/", host, n), Result: "2xx"},
		})
	}
	return all
}

// watch returns the output of --watch up to the last answer.
func watch(t *testing.T, args []string, answers ...*v1alpha1.Calls) (out, notes string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := httptest.NewTLSServer(&callsManager{answers: answers, done: cancel})
	defer server.Close()
	token := bench{dir: t.TempDir()}.write(t, "token", []byte("secret"))
	var stdout, stderr bytes.Buffer
	cmd := newCommand()
	cmd.SetArgs(append([]string{"calls", "--watch", "--interval=100ms", "--server", server.URL, "--token-file", token, "--insecure-skip-tls-verify"}, args...))
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	if err := cmd.ExecuteContext(ctx); err != nil {
		t.Fatalf("%v\n%s%s", err, &stdout, &stderr)
	}
	return stdout.String(), stderr.String()
}

// Each call is shown once, even across an absence or a change of the manager.
func TestWatchShowsEachCallOnce(t *testing.T) {
	out, notes := watch(t, nil, callsOf("a", 2, 1), callsOf("a", 3, 2, 1), nil, callsOf("a", 9, 8), callsOf("b", 1))
	var paths []string
	for _, line := range strings.Split(strings.TrimSpace(out), "\n")[1:] {
		paths = append(paths, strings.Fields(line)[5])
	}
	if got, want := strings.Join(paths, " "), "/a1 /a2 /a3 /a8 /a9 /b1"; got != want {
		t.Errorf("%s, want %s:\n%s", got, want, out)
	}
	if !strings.Contains(notes, "# 4 calls of provider p were not seen") || !strings.Contains(notes, "# another manager answers: b") {
		t.Errorf("%s", notes)
	}
}

func TestWatchForPrograms(t *testing.T) {
	out, _ := watch(t, []string{"-o", "json", "--host", "::1"}, callsOf("a", 2, 1))
	for i, line := range strings.Split(strings.TrimSpace(out), "\n") {
		var c v1alpha1.Call
		if err := json.Unmarshal([]byte(line), &c); err != nil || c.Number != int64(i+1) {
			t.Errorf("%v: %s", err, line)
		}
	}
	if out, _ = watch(t, []string{"-o", "json", "--host", "::2"}, callsOf("a", 2, 1)); out != "" {
		t.Errorf("calls to another host: %s", out)
	}
	if out, _ = watch(t, []string{"-o", "yaml", "--host", "[::1]:443"}, callsOf("a", 1)); !strings.HasPrefix(out, "---\n") || !strings.Contains(out, "\npath: /a1\n") {
		t.Errorf("%s", out)
	}
}

// Without a request there is no table, but which there were none of, and since when.
func TestNoCalls(t *testing.T) {
	for want, f := range map[string]callsFlags{
		"": {}, " of provider p": {provider: "p"}, " to host b": {host: "b", counts: true},
	} {
		all := callsOf("a")
		if f.host != "" {
			all = callsOf("a", 1)
		}
		all.Manager.Started = metav1.Unix(0, 0)
		var out strings.Builder
		if err := f.print(&out, all); err != nil || out.String() != "Manager a remembers no request"+want+" since its start at 1970-01-01T00:00:00Z\n" {
			t.Errorf("%q: %v", out.String(), err)
		}
	}
}
