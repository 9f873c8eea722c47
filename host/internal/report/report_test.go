package report_test

import (
	"bytes"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2/textlogger"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
)

// Each cause has words, stands once, and its command is complete when it is filled.
func TestCauses(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range slices.Concat(report.Causes(), report.Findings()) {
		if seen[c.Reason] {
			t.Errorf("%s stands twice", c.Reason)
		}
		seen[c.Reason] = true
		if c.Means == "" || !report.Known(c.Reason) {
			t.Errorf("%s has no words", c.Reason)
		}
		if c.Next.What == "" && c.Next.Command != "" {
			t.Errorf("%s has a command without a reason", c.Reason)
		}
		command := c.Next.Fill(report.Of{Manager: "ccm", Namespace: "web", Name: "shop", Provider: "main", Choice: "main", Digest: "0123"}).Command
		if left := regexp.MustCompile(`\{[a-z]+\}`).FindString(command); left != "" {
			t.Errorf("%s: %s is not filled in %q", c.Reason, left, command)
		}
	}
	if other := report.Find("ModuleKeyMissing"); other.Next.What == "" || report.Known(other.Reason) {
		t.Errorf("a reason that is not in the register: %+v", other)
	}
}

// The command for a provider's log finds its lines, as a shell runs it, and no other's.
func TestTheLogOfAProviderIsFound(t *testing.T) {
	var log bytes.Buffer
	for _, name := range []string{"main", "main2"} { // as the manager's logger of a provider
		logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log))).WithName("provider").WithValues("provider", name)
		logger.WithValues("module", "static").Info("said by " + name + ".")
	}
	for _, reason := range []string{report.NoAnswer, report.BackedOff} {
		_, filter, _ := strings.Cut(report.Find(reason).Next.Fill(report.Of{Provider: "main"}).Command, "| ")
		shell := exec.CommandContext(t.Context(), "sh", "-c", filter)
		shell.Stdin = bytes.NewReader(log.Bytes())
		if found, err := shell.Output(); err != nil || !strings.Contains(string(found), "said by main.") || strings.Contains(string(found), "main2") {
			t.Errorf("%s: %s: %v, %q of %q", reason, filter, err, found, &log)
		}
	}
}

// A name cannot bring placeholders into a command.
func TestFill(t *testing.T) {
	got := report.Step{Command: "kubectl -n {namespace} get service {name}"}.Fill(report.Of{Namespace: "{name}", Name: "shop"}).Command
	if got != "kubectl -n {name} get service shop" {
		t.Errorf("got %q", got)
	}
}

// Each alert says how bad it is, what to do first, and where to read on.
func TestAlerts(t *testing.T) {
	for _, a := range report.Alerts() {
		if a.Severity != "critical" && a.Severity != "warning" || a.Expr == "" || a.Summary == "" || !strings.HasPrefix(a.Page, "deploy/docs/") {
			t.Errorf("%+v", a)
		}
		if !regexp.MustCompile(`: (ccmctl|kubectl) `).MatchString(a.Next) {
			t.Errorf("%s: the next step %q has no command", a.Name, a.Next)
		}
		// A configuration that waits fires as well, and has another Event.
		if a.Name == "WasmCCMConfigRejected" && strings.Contains(a.Next, report.HostConfigurationRejected) {
			t.Errorf("%s: the next step %q finds nothing of a configuration that waits", a.Name, a.Next)
		}
	}
}

// What the documents and the alert say of a time is the time at which the manager and
// ccmctl tell it.
func TestTimes(t *testing.T) {
	var texts []string
	for _, g := range report.Events() {
		for _, e := range g.Events {
			texts = append(texts, e.Reason+" "+e.When)
		}
	}
	for _, a := range report.Alerts() {
		texts = append(texts, a.Name+" "+a.Expr)
	}
	texts = append(texts, report.Find(report.Postponed).Means)
	for want, of := range map[string]time.Duration{
		"ProviderInProgress an op takes more than a minute":                                                   report.SlowAfter,
		"ProviderDelayed it takes more than 5 minutes":                                                        report.DelayedAfter,
		"the provider asks for patience, for more than a minute":                                              report.SlowAfter,
		"WasmCCMCertificateEnds wasm_ccm_serving_certificate_end_timestamp_seconds - time() < 14 * 24 * 3600": report.CertificateAhead,
	} {
		said := regexp.MustCompile(`(a|\d+) minute|< (\d+) \* 24`).FindStringSubmatch(want)
		n, _ := strconv.Atoi(strings.Replace(said[1]+said[2], "a", "1", 1))
		unit := time.Minute
		if said[2] != "" {
			unit = 24 * time.Hour
		}
		if time.Duration(n)*unit != of || !slices.ContainsFunc(texts, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("%q is not said, or not of %v", want, of)
		}
	}
}

// In another namespace each command of ccmctl names it, and no other command does.
func TestForManager(t *testing.T) {
	for command, want := range map[string]string{
		"ccmctl why node n":                  "ccmctl why node n --manager-namespace ccm",
		"ccmctl status; kubectl -n x logs p": "ccmctl status --manager-namespace ccm; kubectl -n x logs p",
		"ccmctl digest MODULE.wasm":          "ccmctl digest MODULE.wasm",
		"kubectl get nodes":                  "kubectl get nodes",
		"ccmctl rollout pause p --resume":    "ccmctl rollout pause p --resume --manager-namespace ccm",
	} {
		if got := report.ForManager("ccm", command); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := report.ForManager("kube-system", command); got != command {
			t.Errorf("%q, want %q", got, command)
		}
	}
	if got := report.Promote("ccm", "p", "0123"); got != "ccmctl rollout promote p 0123 --manager-namespace ccm" {
		t.Errorf("promote: %q", got)
	}
	if got := report.Find(report.NoNodes).Next.Fill(report.Of{Manager: "ccm"}).What; !strings.HasSuffix(got, "ccmctl why node NAME --manager-namespace ccm") {
		t.Errorf("the words of a step: %q", got)
	}
}
