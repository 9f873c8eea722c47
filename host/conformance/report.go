package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Verdict is the outcome of a clause.
type Verdict string

// The verdicts. A clause does not apply to a guest without its ops, or to cases
// without its objects.
const (
	Pass          Verdict = "PASS"
	Fail          Verdict = "FAIL"
	NotApplicable Verdict = "NOT APPLICABLE"
	// Ended: the run ended during the clause. Its findings until then are the
	// evidence.
	Ended Verdict = "ENDED"
)

// Result of one clause.
type Result struct {
	// ID is short and stable.
	ID string `json:"id"`
	// Clause is the rule.
	Clause string `json:"clause"`
	// Verdict is "" while the clause runs.
	Verdict Verdict `json:"verdict"`
	// Note is what was tried, or why the clause does not apply.
	Note string `json:"note,omitempty"`
	// Evidence describes the violation, with the host calls, in lines.
	Evidence []string      `json:"evidence,omitempty"`
	Took     time.Duration `json:"tookNanoseconds"`
}

// Report is the result of a Run.
type Report struct {
	// Guest and Version from the manifest.
	Guest   string   `json:"guest"`
	Version string   `json:"version"`
	Results []Result `json:"results"`
}

// Passed reports whether no clause failed or was ended, and at least one passed.
func (r Report) Passed() bool {
	passed := 0
	for _, one := range r.Results {
		switch one.Verdict {
		case Fail, Ended:
			return false
		case Pass:
			passed++
		}
	}
	return passed > 0
}

// Result returns the result of the clause, or the zero Result.
func (r Report) Result(id string) Result {
	for _, one := range r.Results {
		if one.ID == id {
			return one
		}
	}
	return Result{}
}

// Count returns the number of clauses with the verdict.
func (r Report) Count(v Verdict) int {
	n := 0
	for _, one := range r.Results {
		if one.Verdict == v {
			n++
		}
	}
	return n
}

// WriteText writes a line for each clause, with the evidence below failed ones,
// and the summary.
func (r Report) WriteText(w io.Writer) error {
	for _, one := range r.Results {
		if err := one.WriteText(w); err != nil {
			return err
		}
	}
	return r.WriteSummary(w)
}

// WriteSummary writes the number of clauses by verdict.
func (r Report) WriteSummary(w io.Writer) error {
	guest := text.Escape(r.Guest + " " + r.Version)
	if r.Guest == "" {
		guest = "the module, which does not load"
	}
	summary := fmt.Sprintf("%s: %d passed, %d failed, %d not applicable", guest, r.Count(Pass), r.Count(Fail), r.Count(NotApplicable))
	if r.Count(Ended) > 0 {
		summary += "; the run was ended early, what comes behind was not tried"
	}
	if r.crashedSomewhere() {
		summary += "\nTo see the line of a crash, build it with ccmctl build --debug (GUEST_DEBUG=1 guests/build.sh) and run this again; see guests/DEBUGGING.md"
	}
	_, err := io.WriteString(w, summary+"\n")
	return err
}

// crashedSomewhere: the guest crashed, and no line of its source is known.
func (r Report) crashedSomewhere() (crashed bool) {
	for _, one := range r.Results {
		for _, line := range one.Evidence {
			crashed = crashed || strings.Contains(line, trapped)
			if strings.Contains(line, ".go:") {
				return false
			}
		}
	}
	return crashed
}

// trapped marks the evidence of a crash.
const trapped = "the guest trapped"

// WriteText writes the line of one clause, with the evidence below it.
func (r Result) WriteText(w io.Writer) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%-14s  %-17s %6.1f s  %s", r.Verdict, r.ID, r.Took.Seconds(), r.Clause)
	if r.Note != "" {
		fmt.Fprintf(b, " (%s)", text.Escape(r.Note))
	}
	b.WriteByte('\n')
	for _, line := range r.Evidence {
		fmt.Fprintf(b, "    %s\n", text.Escape(line))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteJSON writes the report as one object.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
