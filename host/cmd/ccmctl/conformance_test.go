package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/conformance"
)

const casesFile = "../../../testdata/conformance/static.yaml"

func conformanceOf(b bench, more ...string) []string {
	return append([]string{
		"conformance", "--module", b.path("module.wasm"), "--cases", casesFile,
		"--provider-config", "../../../testdata/conformance/static-inventory.yaml", "--fault-timeout", "200ms",
	}, more...)
}

func TestConformance(t *testing.T) {
	b := newBench(t)
	out := mustCcmctl(t, conformanceOf(b, "--only", "^(load|lb-.*|crash-.*)$")...)
	for _, want := range []string{"static 0.1.0\n", "PASS            lb-ensure", "PASS            crash-ensure", "0 failed"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	var report conformance.Report
	out = mustCcmctl(t, conformanceOf(b, "--only", "^probe$", "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Result("probe").Verdict != conformance.Pass {
		t.Errorf("%v in %s", err, out)
	}
}

// TestConformanceInspects: what the command says is the witness. This one sees
// something new each time, as if everything left something behind.
func TestConformanceInspects(t *testing.T) {
	b := newBench(t)
	inspect := `echo x >> "` + b.path("seen") + `"; wc -l < "` + b.path("seen") + `"`
	out, err := ccmctl(conformanceOf(b, "--only", "^lb-delete$", "--inspect", inspect, "--settle", "20ms")...)
	if err == nil || !strings.Contains(out, "FAIL            lb-delete") || !strings.Contains(out, "more: ") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = ccmctl(conformanceOf(b, "--only", "^lb-delete$", "--inspect", "echo cannot >&2; exit 3")...)
	if err == nil || !strings.Contains(out, "exit status 3: cannot") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestConformanceReadsWhatTheManagerReads: the HostConfiguration decides, here
// by not granting the store.
func TestConformanceReadsWhatTheManagerReads(t *testing.T) {
	b := newBench(t)
	config := b.write(t, "config.yaml", []byte(`
apiVersion: config.wasm-ccm.dev/v1alpha1
kind: HostConfiguration
providers:
- {name: a, store: a, source: {directory: /a}, capabilities: [store]}
- {name: b, store: b, source: {directory: /b}, capabilities: [nodes]}
`))
	mustCcmctl(t, conformanceOf(b, "--config", config, "--provider", "a", "--only", "^load$")...)
	out, err := ccmctl(conformanceOf(b, "--config", config, "--provider", "b")...)
	if err == nil || !strings.Contains(out, "FAIL            load") || !strings.Contains(out, "store") {
		t.Errorf("%v\n%s", err, out)
	}
	wantFailure(t, "must be one of those in "+config+": a, b", conformanceOf(b, "--config", config)...)
}

func TestConformanceRefuses(t *testing.T) {
	b := newBench(t)
	wantFailure(t, `required flag(s) "cases", "module"`, "conformance")
	wantFailure(t, "must be text or json", conformanceOf(b, "-o", "xml")...)
	wantFailure(t, "--only", conformanceOf(b, "--only", "(")...)
	wantFailure(t, "no such file", conformanceOf(b, "--secrets", b.path("none"))...)
	wantFailure(t, "no such file", conformanceOf(b, "--signer-module", "cloud="+b.path("none.wasm"))...)
	few := b.write(t, "few.yaml", []byte("nodes: [{name: a}]\n"))
	wantFailure(t, "from 2 to 1000", "conformance", "--module", b.path("module.wasm"), "--cases", few)
	wrong := b.write(t, "wrong.yaml", []byte("nodes: [{name: a, colour: red}, {name: b}]\n"))
	wantFailure(t, "colour", "conformance", "--module", b.path("module.wasm"), "--cases", wrong)
	if err := os.MkdirAll(filepath.Join(b.dir, "secrets", "ns", "cloud"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.write(t, "secrets/ns/cloud/token", []byte("secret"))
	mustCcmctl(t, conformanceOf(b, "--secrets", b.path("secrets"), "--only", "^(load|probe)$")...)
}
