package check

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	restclient "k8s.io/client-go/rest"
)

// An account without read rights gets that as a finding, and neither OK
// findings nor the claim that nothing is installed.
func TestUnreadIsNotClaimed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/version" {
			_, _ = w.Write([]byte(`{"gitVersion": "v1.37.0"}`))
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "message": "no", "code": 403}`))
	}))
	t.Cleanup(server.Close)
	findings, err := Run(t.Context(), &restclient.Config{Host: server.URL}, Options{Namespace: "kube-system", Patience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.Reason == "NotInstalled" || f.Severity == OK && f.Reason != "Versions" {
			t.Errorf("claimed of what may not be read: %+v", f)
		}
	}
	if !found(findings, Finding{Severity: Unknown, Reason: "MayNotRead", Where: "nodes"}) || !found(findings, Finding{Severity: Unknown, Reason: "MayNotRead", Where: "daemonset kube-system/cloud-controller-manager"}) {
		t.Errorf("findings: %+v", findings)
	}
}
