package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/conformance"
)

func runOf(b bench, op ...string) []string {
	return append(append([]string{"run"}, op...), "--module", b.path("module.wasm"), "--cases", casesFile,
		"--provider-config", "../../../testdata/conformance/static-inventory.yaml", "--compilation-cache-dir", b.path("cache"))
}

// TestRun: one op, its requests and its answer.
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

// TestRunRefuses what cannot be run, by what can; an op that fails ends with 1.
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
