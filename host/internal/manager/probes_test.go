package manager

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
)

func TestProbes(t *testing.T) {
	serving := false
	server := httptest.NewServer(probes(func() bool { return serving }))
	defer server.Close()
	for _, step := range []struct {
		serving bool
		path    string
		want    int
	}{
		{false, "/healthz", http.StatusOK},
		{false, "/readyz", http.StatusServiceUnavailable},
		{true, "/readyz", http.StatusOK},
		{true, "/metrics", http.StatusNotFound},
	} {
		serving = step.serving
		resp, err := server.Client().Get(server.URL + step.path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != step.want {
			t.Errorf("serving %v: %s is %d, want %d", step.serving, step.path, resp.StatusCode, step.want)
		}
	}
}

func TestProbeAddressInUseIsNamed(t *testing.T) {
	server := httptest.NewServer(nil)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := serveProbes(ctx, &tasks.Group{}, server.Listener.Addr().String(), func() bool { return true })
	if err == nil || !strings.Contains(err.Error(), "--health-probe-bind-address") {
		t.Errorf("error %v", err)
	}
}

func TestFlagsAreUpstreamsAndOurs(t *testing.T) {
	command, _, err := newCommand(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{
		"provider-configmap", "provider-dir", "health-probe-bind-address", "cloud-config", "leader-elect",
		"enable-leader-migration", "cluster-cidr", "secure-port", "use-service-account-credentials", "controllers",
	} {
		if command.Flags().Lookup(flag) == nil {
			t.Errorf("--%s is not there", flag)
		}
	}
	if err := command.PreRunE(command, nil); err == nil || !strings.Contains(err.Error(), "--provider-configmap") {
		t.Errorf("without a provider: %v", err)
	}
}
