package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
)

// Verdict is what became of a clause.
type Verdict string

// The verdicts. A clause does not apply to a guest that lacks the ops or to
// cases that lack the objects that it needs.
const (
	Pass          Verdict = "PASS"
	Fail          Verdict = "FAIL"
	NotApplicable Verdict = "NOT APPLICABLE"
)

// Result is that of one clause.
type Result struct {
	// ID is short and does not change.
	ID string `json:"id"`
	// Clause is what has to hold.
	Clause string `json:"clause"`
	// Verdict is "" while the clause runs.
	Verdict Verdict `json:"verdict"`
	// Note says what was tried, or why the clause does not apply.
	Note string `json:"note,omitempty"`
	// Evidence says what happened where the clause does not hold, with the
	// host calls, in lines.
	Evidence []string      `json:"evidence,omitempty"`
	Took     time.Duration `json:"tookNanoseconds"`
}

// Report is what a Run found.
type Report struct {
	// Guest and Version are those of the manifest.
	Guest   string   `json:"guest"`
	Version string   `json:"version"`
	Results []Result `json:"results"`
}

// Passed reports whether no clause failed, and one passed at least.
func (r Report) Passed() bool {
	passed := 0
	for _, one := range r.Results {
		switch one.Verdict {
		case Fail:
			return false
		case Pass:
			passed++
		}
	}
	return passed > 0
}

// Result returns that of the clause, or the zero Result.
func (r Report) Result(id string) Result {
	for _, one := range r.Results {
		if one.ID == id {
			return one
		}
	}
	return Result{}
}

// Count returns how many clauses have the verdict.
func (r Report) Count(v Verdict) int {
	n := 0
	for _, one := range r.Results {
		if one.Verdict == v {
			n++
		}
	}
	return n
}

// WriteText writes a line for each clause, with the evidence below those that
// failed.
func (r Report) WriteText(w io.Writer) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s %s\n", printable(r.Guest), printable(r.Version))
	for _, one := range r.Results {
		fmt.Fprintf(b, "%-14s  %-17s %6.1f s  %s", one.Verdict, one.ID, one.Took.Seconds(), one.Clause)
		if one.Note != "" {
			fmt.Fprintf(b, " (%s)", printable(one.Note))
		}
		b.WriteByte('\n')
		for _, line := range one.Evidence {
			fmt.Fprintf(b, "    %s\n", printable(line))
		}
	}
	fmt.Fprintf(b, "%d passed, %d failed, %d not applicable\n", r.Count(Pass), r.Count(Fail), r.Count(NotApplicable))
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteJSON writes the report as one object.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// printable leaves nothing that would control a terminal: guests and clouds
// wrote it.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
