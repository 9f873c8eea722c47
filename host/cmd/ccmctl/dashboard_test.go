package main

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Whoever answers in a manager's place runs no script beside the answers of the
// manager that is asked next, and lets no other page frame them.
func TestDashboardRunsNothing(t *testing.T) {
	hostile := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Security-Policy", "default-src *; script-src 'unsafe-inline'")
		w.Header().Set("Referrer-Policy", "unsafe-url")
		w.Header().Set("Cache-Control", "public")
		_, _ = io.WriteString(w, "<script>steal()</script>")
	}))
	t.Cleanup(hostile.Close)
	client := newManagerClient(hostile.URL, "t", &tls.Config{InsecureSkipVerify: true}, func() {})
	d := &dashboard{connection: &connection{connect: func() (*managerClient, error) { return client, nil }}, host: "127.0.0.1:1", key: "KEY"}
	t.Cleanup(d.drop)
	request := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:1/KEY"+v1alpha1.PagePath, nil)
	answer := httptest.NewRecorder()
	d.ServeHTTP(answer, request)
	policies := answer.Header().Values("Content-Security-Policy")
	if !slices.ContainsFunc(policies, func(p string) bool {
		return strings.HasPrefix(p, "default-src 'none'; style-src 'unsafe-inline';") && strings.Contains(p, "frame-ancestors 'none'") && !strings.Contains(p, "script")
	}) {
		t.Errorf("policies %q", policies)
	}
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"} {
		if got := answer.Header().Values(name); !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
