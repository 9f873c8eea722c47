package report_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
)

// Each cause has words, stands once, and its command is complete when it is filled.
func TestCauses(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range report.Causes() {
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
		command := c.Next.Fill(report.Of{Manager: "ccm", Namespace: "web", Name: "shop", Provider: "main", Choice: "main", Digest: "0123"})
		if left := regexp.MustCompile(`\{[a-z]+\}`).FindString(command); left != "" {
			t.Errorf("%s: %s is not filled in %q", c.Reason, left, command)
		}
	}
	if other := report.Find("ModuleKeyMissing"); other.Next.What == "" || report.Known(other.Reason) {
		t.Errorf("a reason that is not in the register: %+v", other)
	}
}

// A name cannot bring placeholders into a command.
func TestFill(t *testing.T) {
	got := report.Step{Command: "kubectl -n {namespace} get service {name}"}.Fill(report.Of{Namespace: "{name}", Name: "shop"})
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
	}
}
