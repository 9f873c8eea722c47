package main

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// A false manager's page runs no script beside the answers of the next manager,
// and other pages cannot frame it.
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

// For any request of a browser, ccmctl's token goes only to the manager's pages
// and its API: no spelling of a path leads elsewhere.
func TestDashboardLeadsToNothingElse(t *testing.T) {
	var asked []string
	manager := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = append(asked, r.RequestURI) }))
	t.Cleanup(manager.Close)
	client := newManagerClient(manager.URL, "t", &tls.Config{InsecureSkipVerify: true}, func() {})
	d := &dashboard{connection: &connection{connect: func() (*managerClient, error) { return client, nil }}, host: "127.0.0.1:1", key: "KEY"}
	t.Cleanup(d.drop)
	for path, want := range map[string]string{
		v1alpha1.PagePath:                v1alpha1.PagePath,
		v1alpha1.WhyPagePath + "?name=a": v1alpha1.WhyPagePath + "?name=a",
		v1alpha1.CallsPagePath:           v1alpha1.CallsPagePath,
		v1alpha1.StatusPath:              v1alpha1.StatusPath,
		v1alpha1.ReachabilityPath:        v1alpha1.ReachabilityPath,
		"/wasm-ccm/../metrics":           "",
		"/wasm-ccm/%2e%2e/metrics":       "",
		"/wasm-ccm/%2E./metrics":         "",
		"/wasm-ccm/a/..%2f..%2fmetrics":  "",
		"/wasm-ccm/%252e%252e/metrics":   "",
		"/wasm-ccm/..\\metrics":          "",
		"/wasm-ccm/./status":             "",
		"/wasm-ccm/status%3fname=a":      "",
		"/wasm-ccm/status%23":            "",
		"/wasm-ccm/status;a":             "",
		"/wasm-ccm/status%00":            "",
		"/wasm-ccm":                      "",
		"/metrics":                       "",
		"//wasm-ccm/status":              "",
	} {
		asked = nil
		request := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:1/", nil)
		var err error
		raw, query, _ := strings.Cut("/KEY"+path, "?")
		request.URL.RawPath, request.URL.RawQuery = raw, query
		if request.URL.Path, err = url.PathUnescape(raw); err != nil {
			t.Fatal(err)
		}
		d.ServeHTTP(httptest.NewRecorder(), request)
		if got := strings.Join(asked, " "); got != want {
			t.Errorf("%s asks the manager for %q, want %q", path, got, want)
		}
	}
}
