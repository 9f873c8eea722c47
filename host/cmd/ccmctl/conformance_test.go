package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/conformance"
)

// TestMain makes the test binary the compiling child, as ccmctl is.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == compileCommand {
		os.Exit(compileChild())
	}
	os.Exit(m.Run())
}

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
	for _, want := range []string{"static 0.1.0: ", "PASS            lb-ensure", "PASS            crash-ensure", "0 failed"} {
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

// TestConformanceInspects: the command's output is the witness. This one
// changes each time, as if every op left objects behind.
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

// TestConformanceCountsNoIDs: a cloud's numbers of objects differ each time;
// objects left behind are found all the same.
func TestConformanceCountsNoIDs(t *testing.T) {
	b := newBench(t)
	inspect := `echo x >> "` + b.path("seen") + `"; echo "network $((1000000 + $(wc -l < "` + b.path("seen") + `")))"; echo "id=$(wc -l < "` + b.path("seen") + `")"`
	mustCcmctl(t, conformanceOf(b, "--only", "^lb-delete$", "--inspect", inspect, "--inspect-ignore", `id=\d+`, "--settle", "20ms")...)
	wantFailure(t, "--inspect-ignore", conformanceOf(b, "--inspect", "true", "--inspect-ignore", "(")...)
}

// TestConformanceExcept: an excepted clause does not fail the run, and is in
// the report.
func TestConformanceExcept(t *testing.T) {
	b := newBench(t)
	out := mustCcmctl(t, conformanceOf(b, "--only", "^(load|probe)$", "--except", "^pro")...)
	for _, want := range []string{"PASS            load", "NOT APPLICABLE  probe ", "it was left out: ^pro", "1 passed, 0 failed, 1 not applicable"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	wantFailure(t, "--except", conformanceOf(b, "--except", "(")...)
}

// TestConformanceThatIsEnded: an interrupted run reports its findings so far.
func TestConformanceThatIsEnded(t *testing.T) {
	b := newBench(t)
	var out bytes.Buffer
	cmd := newCommand()
	cmd.SetArgs(conformanceOf(b, "--only", "^(load|probe|lb-nodes|crash-ensure|secrets)$"))
	cmd.SetOut(&out)
	cmd.SetErr(until("crash-ensure", func() {
		if !strings.Contains(out.String(), "PASS            probe") {
			t.Errorf("what has passed is not told while the rest runs:\n%s", out.String())
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}))
	err := cmd.ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), "ended in crash-ensure") {
		t.Errorf("%v", err)
	}
	for _, want := range []string{"PASS            load", "PASS            lb-nodes", "ENDED           crash-ensure", "3 passed, 0 failed, 0 not applicable; the run was ended early"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

// until calls a function when a text is first written.
func until(text string, call func()) io.Writer {
	var once sync.Once
	return writerFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte(text)) {
			once.Do(call)
		}
		return len(p), nil
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestConformanceHasTheManagersLimits: a module, or its compilation, above the
// manager's limits is refused here, too.
func TestConformanceHasTheManagersLimits(t *testing.T) {
	b := newBench(t)
	config := b.write(t, "config.yaml", []byte(`
apiVersion: config.wasm-ccm.dev/v1alpha1
kind: HostConfiguration
providers: [{name: a, source: {directory: /a}, limits: {module: 100Ki}}]
`))
	out, err := ccmctl(conformanceOf(b, "--config", config, "--only", "^load$")...)
	if err == nil || !strings.Contains(out, "at most 102400 are allowed (providers[].limits.module)") {
		t.Errorf("%v\n%s", err, out)
	}
	build := os.Getenv("CCM_BUILD")
	if build == "" {
		build = "../../../build"
	}
	signer, err := os.ReadFile(filepath.Join(build, "signer-keystone.wasm"))
	if err != nil {
		t.Fatalf("%v; run make guests-test", err)
	}
	b.write(t, "module.wasm", signer)
	out, err = ccmctl(conformanceOf(b, "--only", "^load$")...)
	if err == nil || !strings.Contains(out, "it is a signer, which belongs to a credential") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestConformanceReadsWhatTheManagerReads: the HostConfiguration decides, in
// this test by not granting the store.
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
	wantFailure(t, "none: no such file or directory: give a directory with a file NAMESPACE/NAME/KEY", conformanceOf(b, "--secrets", b.path("none"))...)
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
