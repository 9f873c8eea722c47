package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Each command of rollout accepts --server, as status and why do, and changes
// nothing in a cluster with another manager.
func TestRolloutAsksTheServer(t *testing.T) {
	answer := ""
	manager := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
	defer manager.Close()
	cluster := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer cluster.Close()
	b := bench{dir: t.TempDir()}
	flags := []string{
		"--kubeconfig", b.kubeconfig(t, cluster.URL), "--server", manager.URL, "--insecure-skip-tls-verify", "--token-file", b.write(t, "token", []byte("t")),
	}
	for said, want := range map[string]string{
		`{"manager": {"leads": true}, "providers": [{"name": "static"}]}`: "get configmaps", // the cluster was asked
		`{"manager": {"leads": true}, "providers": [{"name": "other"}]}`:  "is it the manager of this cluster?",
		`{"manager": {"holder": "b"}}`:                                    "stands by; b leads",
	} {
		answer = said
		for _, command := range []string{"promote static true", "pause static", "rollback static", "history static"} {
			_, err := runCommand(t, append(append([]string{"rollout"}, strings.Fields(command)...), flags...)...)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, where the manager says %s: %v", command, said, err)
			}
		}
	}
}
