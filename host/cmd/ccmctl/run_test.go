package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/conformance"
)

func runOf(b bench, op ...string) []string {
	return append(append([]string{"run"}, op...), "--module", b.path("module.wasm"), "--cases", casesFile,
		"--provider-config", "../../../testdata/conformance/static-inventory.yaml", "--compilation-cache-dir", b.path("cache"))
}

// TestRun: one op, with its requests and its answer.
func TestRun(t *testing.T) {
	b := newBench(t)
	out := mustCcmctl(t, runOf(b, "lb_ensure", "chosen")...)
	for _, want := range []string{"request  store write ", "lb_ensure: ok, ", `"ip": "198.51.100.20"`} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	var answer conformance.Answer
	out = mustCcmctl(t, append(runOf(b, "instance_exists", "conformance-no-such-node"), "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &answer); err != nil || answer.Code != "ok" || answer.Response != "EXISTENCE_DOES_NOT_EXIST" {
		t.Errorf("%v in %s", err, out)
	}
}

// TestRunRefuses: a refusal lists the known ops or objects; a failed op ends with 1.
func TestRunRefuses(t *testing.T) {
	b := newBench(t)
	out, err := ccmctl(runOf(b, "tick")...)
	if err == nil || !strings.Contains(err.Error(), "the op failed") || !strings.Contains(out, "tick: not_implemented, ") || !strings.Contains(out, "does not support tick") {
		t.Errorf("%v\n%s", err, out)
	}
	wantFailure(t, "give one of probe, instance_exists", runOf(b, "describe")...)
	wantFailure(t, `no "api" under services, only web, chosen`, runOf(b, "lb_get", "api")...)
	wantFailure(t, "must be text or json", append(runOf(b, "probe"), "-o", "yaml")...)
	if out := mustCcmctl(t, "__complete", "run", "lb_e"); !strings.Contains(out, "lb_ensure\n") {
		t.Errorf("completion says %q", out)
	}
}

// slowFor is the delay of the test's cloud: longer than a manager waits for an
// op in the foreground (ops.foreground).
const slowFor = 3 * time.Second

// slowCloud has every server, and answers late.
func slowCloud(t *testing.T) (host, port string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		timer := time.NewTimer(slowFor)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done(): // the client may be gone
		}
	}))
	t.Cleanup(server.Close)
	host, port, _ = strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	return host, port
}

// TestRunOfASlowCloud: an op may run as long as in the manager, and the error
// names the bound that ended it.
func TestRunOfASlowCloud(t *testing.T) {
	b := newBench(t)
	module, err := os.ReadFile(filepath.Join(os.Getenv("CCM_BUILD"), "faulty.wasm"))
	if err != nil {
		t.Fatalf("%v; run make guests-test, and set CCM_BUILD", err)
	}
	host, port := slowCloud(t)
	args := []string{
		"run", "instance_exists", "worker-1", "-o", "json", "--compilation-cache-dir", b.path("cache"), "--module", b.write(t, "faulty.wasm", module),
		"--cases", b.write(t, "cases.yaml", []byte("{nodes: [{name: worker-1}, {name: worker-2}], badConfigs: [nonsense]}")),
		"--provider-config", b.write(t, "config.txt", []byte("count=http://"+host+":"+port)),
	}
	asked := "GET /server/worker-1 -> "
	for _, test := range []struct{ settings, code, says, request string }{
		{"ops: {}", "ok", "", asked + "200"},
		{"requests: {timeout: 1s}", "deadline", "no complete answer in time", asked + "deadline"},
		{"ops: {timeout: 1s}", "internal", "the guest was ended: context deadline exceeded", asked + "deadline"},
	} {
		config := fmt.Sprintf("{apiVersion: config.wasm-ccm.dev/v1alpha1, kind: HostConfiguration, providers: [{name: faulty, source: {configMap: {namespace: kube-system, name: faulty}}, "+
			"capabilities: [http_send, nodes, event], grants: [{scheme: http, host: %s, port: %s, cidrs: [127.0.0.1/32]}], %s}]}", host, port, test.settings)
		out, err := ccmctl(append(args, "--config", b.write(t, "host.yaml", []byte(config)))...)
		var a conformance.Answer
		if decoded := json.Unmarshal([]byte(out), &a); decoded != nil || (err == nil) != (test.code == "ok") {
			t.Fatalf("%s: %v, %v\n%s", test.settings, err, decoded, out)
		}
		took := time.Duration(a.Milliseconds) * time.Millisecond
		if a.Code != test.code || !strings.Contains(a.Error, test.says) || len(a.Requests) != 1 || a.Requests[0] != test.request || (took >= slowFor) != (test.code == "ok") {
			t.Errorf("%s: %+v", test.settings, a)
		}
	}
}
