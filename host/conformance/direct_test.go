package conformance_test

import (
	"bytes"
	"context"
	"errors"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/conformance"
)

// direct is a cloud in this process, without a network.
type direct struct{ cloud *widgets }

func (d direct) Send(ctx context.Context, requests []*abi.HttpRequest) ([]*abi.HttpResult, error) {
	results := make([]*abi.HttpResult, len(requests))
	for i, r := range requests {
		request := httptest.NewRequestWithContext(ctx, r.Method, r.Url, bytes.NewReader(r.Body))
		request.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		d.cloud.server.Config.Handler.ServeHTTP(w, request)
		results[i] = &abi.HttpResult{Response: &abi.HttpResponse{Status: int32(w.Code), Body: w.Body.Bytes()}}
	}
	return results, nil
}

// TestCloudAsAFunction: a Go test needs no HostConfiguration, and has the same
// faults as with one.
func TestCloudAsAFunction(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	t.Parallel()
	cloud := newWidgets(t)
	o := widgetOptions(t, "")
	o.Provider, o.Secrets, o.HTTP = v1alpha1.Provider{}, nil, direct{cloud}
	o.Inspect = func(context.Context) (string, error) { return cloud.inspect(), nil }
	for _, r := range run(t, o).Results {
		want := conformance.Pass
		if r.ID == "probe-credentials" || r.ID == "secrets" {
			want = conformance.NotApplicable
		}
		if r.Verdict != want {
			t.Errorf("%s: %s %s %q", r.ID, r.Verdict, r.Note, r.Evidence)
		}
	}
}

// TestEndedRunTidiesUp: the context ends in the middle of a clause.
func TestEndedRunTidiesUp(t *testing.T) {
	t.Parallel()
	cloud := newWidgets(t)
	o := widgetOptions(t, "")
	o.HTTP, o.Only = direct{cloud}, regexp.MustCompile("^(load|crash-ensure|probe)$")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Inspect = func(context.Context) (string, error) { return "", nil }
	o.Progress = func(r conformance.Result) {
		if r.Note == "crash after at request 2" {
			cancel()
		}
	}
	report, err := conformance.Run(ctx, o)
	if !errors.Is(err, context.Canceled) || len(report.Results) != 3 || report.Passed() {
		t.Errorf("%v after %d clauses, want the two before crash-ensure, and that one", err, len(report.Results))
	}
	if r := report.Result("crash-ensure"); r.Verdict != conformance.Ended || len(r.Evidence) > 0 {
		t.Errorf("%s with %q, want that it was ended without having found anything", r.Verdict, r.Evidence)
	}
	if left := cloud.inspect(); left != "" {
		t.Errorf("left behind: %s", left)
	}
}
