//go:build upstream

package e2e

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/conformance"
)

var (
	// unmetRow is a row of the table of clauses in a README: the clause, what the
	// kit sees, and why.
	unmetRow = regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\| (.+?) \\| (.+) \\|$")
	quoted   = regexp.MustCompile("`([^`]+)`")
)

// unmetClauses are the clauses that a provider does not hold, each with pieces of
// what the kit says of it.
func unmetClauses(t *testing.T, readme string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	unmet := map[string][]string{}
	for _, row := range unmetRow.FindAllStringSubmatch(string(text), -1) {
		if !slices.Contains(conformance.IDs(), row[1]) {
			t.Errorf("%s: %q is no clause", readme, row[1])
		}
		for _, piece := range quoted.FindAllStringSubmatch(row[2], -1) {
			unmet[row[1]] = append(unmet[row[1]], piece[1])
		}
	}
	if len(unmet) == 0 {
		t.Fatalf("%s has no table of clauses", readme)
	}
	return unmet
}

// checkVerdicts compares a report with the README's table, both ways: another
// clause that fails, one of these that passes, and one that fails for another
// reason are errors.
func checkVerdicts(t *testing.T, report []byte, readme string) {
	t.Helper()
	var got conformance.Report
	if err := json.Unmarshal(report, &got); err != nil || len(got.Results) == 0 {
		t.Fatalf("no report: %v", err)
	}
	unmet := unmetClauses(t, readme)
	for _, c := range got.Results {
		pieces, known := unmet[c.ID]
		switch {
		case c.Verdict == conformance.Fail && !known:
			t.Errorf("%s (%s) does not hold:\n%s", c.ID, c.Clause, strings.Join(c.Evidence, "\n"))
		case c.Verdict == conformance.Fail:
			checkEvidence(t, c, pieces)
		case c.Verdict == conformance.Pass && known:
			t.Errorf("%s passes: take it out of %s", c.ID, readme)
		}
		t.Logf("%-14s %s (%s) %s", c.Verdict, c.ID, c.Took.Round(time.Second), c.Note)
	}
}

// checkEvidence: each line of a failure has one of the pieces, and each piece is
// in a line. What the kit adds to a line is indented.
func checkEvidence(t *testing.T, c conformance.Result, pieces []string) {
	t.Helper()
	for _, line := range c.Evidence {
		if strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "and ") {
			continue
		}
		if !slices.ContainsFunc(pieces, func(piece string) bool { return strings.Contains(line, piece) }) {
			t.Errorf("%s fails for another reason than the README says:\n%s", c.ID, strings.Join(c.Evidence, "\n"))
			return
		}
	}
	for _, piece := range pieces {
		if !strings.Contains(strings.Join(c.Evidence, "\n"), piece) {
			t.Errorf("%s fails, but not as the README says, by %q:\n%s", c.ID, piece, strings.Join(c.Evidence, "\n"))
		}
	}
}
