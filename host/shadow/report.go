package shadow

import (
	"fmt"
	"strings"
)

// Report is what a replay found. Samples is the sum of Same, Different and
// Incomparable.
type Report struct {
	Samples, Same, Different, Incomparable int
	// Differences are the first ones, at most ReplayOptions.MaxDifferences,
	// and a few of each answer.
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
	// or "".
	Object string
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
	return fmt.Sprintf("%s %s: %s -> %s", about, d.Field, d.Old, d.New)
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
	return cut(b.String(), maxReportText)
}
