package shadow

import (
	"fmt"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Report is what a replay found. Samples is the sum of Same, Different and
// Incomparable.
type Report struct {
	Samples, Same, Different, Incomparable int
	// Differences are the first ones, at most ReplayOptions.MaxDifferences,
	// and a few of each answer. Equal ones of several answers are one.
	Differences []Difference
	// Unanswered are the first reasons why answers could not be compared, at
	// most ReplayOptions.MaxDifferences; one line each.
	Unanswered []string
}

// Difference is a field that differs. All members are printable and bounded.
// What the guests answered may be in it, what the cloud answered is not.
type Difference struct {
	// Op is the name of the op.
	Op string
	// Object is the name of a node or volume, the namespace/name of a Service,
	// or "": the first of which it was found.
	Object string
	// Others counts the further answers that differ in the same way.
	Others int
	// Field is a path such as metadata.addresses[1].address, or "code" when
	// one of the answers is no success, or "error" when the new generation
	// gave no answer.
	Field string
	// Old and New are the values: text is in quotes.
	Old, New string
}

// String returns the difference on one line.
func (d Difference) String() string {
	about := d.Op
	if d.Object != "" {
		about += " " + d.Object
	}
	text := fmt.Sprintf("%s %s: %s -> %s", about, d.Field, d.Old, d.New)
	if d.Others > 0 {
		text += fmt.Sprintf(" (and %d more answers)", d.Others)
	}
	return text
}

// add takes a difference, or counts it where there is an equal one.
func (r *Report) add(d Difference, most int) {
	for i := range r.Differences {
		if same := &r.Differences[i]; same.Op == d.Op && same.Field == d.Field && same.Old == d.Old && same.New == d.New {
			same.Others++
			return
		}
	}
	if len(r.Differences) < most {
		r.Differences = append(r.Differences, d)
	}
}

// String returns the report on one line of at most 1000 bytes.
func (r Report) String() string {
	if r.Samples == 0 {
		return "there were no answers to compare"
	}
	b := &strings.Builder{}
	fmt.Fprintf(b, "%d of %d answers are the same", r.Same, r.Samples)
	if r.Different > 0 {
		fmt.Fprintf(b, ", %d differ", r.Different)
	}
	if r.Incomparable > 0 {
		fmt.Fprintf(b, ", %d could not be compared", r.Incomparable)
	}
	var details []string
	for _, d := range r.Differences {
		details = append(details, d.String())
	}
	details = append(details, r.Unanswered...)
	if len(details) > 0 {
		b.WriteString(": " + strings.Join(details, "; "))
	}
	return text.Line(b.String(), maxReportText)
}
