package shadow

import (
	"fmt"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// maxReasons bounds the differences and the reasons of a report.
const maxReasons = 20

// Report is the result of questions. Questions is the sum of the others: Same answers,
// answers Alone without a comparison, and so on.
type Report struct {
	Questions, Same, Alone, Different, Unknown, Failed int
	// Requests counts the requests sent to the cloud, Kept the suppressed writes.
	Requests, Kept int
	// Failure is the first failure of the guest itself, or ""; Wrote the first suppressed write
	// of the candidate, or "".
	Failure, Wrote string
	// Differences are the first ones, at most 20, and a few of each answer. Equal ones of
	// several answers count once.
	Differences []Difference
	// Unknowns are the first reasons for missing answers, at most 20; one line each.
	Unknowns []string
}

// Difference is a differing field. All members are printable and bounded. They may quote the
// guests' answers, never the cloud's.
type Difference struct {
	// Op is the name of the op.
	Op string
	// Object is the name of a node or volume, the namespace/name of a Service, or "": the first
	// with this difference.
	Object string
	// Others counts further answers with the same difference.
	Others int
	// Field is a path such as metadata.addresses[1].address, or "code" if one of the answers is
	// no success, "error" if the new generation gave no answer, or "time" if it takes much
	// longer.
	Field string
	// Old and New are the values; text is quoted.
	Old, New string
}

// String returns the difference on one line.
func (d Difference) String() string {
	about := d.Op
	if d.Object != "" {
		about += " " + d.Object
	}
	line := fmt.Sprintf("%s %s: %s -> %s", about, d.Field, d.Old, d.New)
	if d.Field == "time" {
		line = fmt.Sprintf("%s takes %s, before %s", about, d.New, d.Old)
	}
	if d.Others > 0 {
		line += fmt.Sprintf(" (and %d more answers)", d.Others)
	}
	return line
}

func (r *Rehearsal) report(verdicts []verdict) Report {
	out := Report{Questions: len(verdicts), Requests: int(r.requests.Load()), Kept: int(r.kept.Load())}
	if wrote := r.wrote.Load(); wrote != nil {
		out.Wrote = *wrote
	}
	for _, v := range verdicts {
		switch {
		case v.failed != "":
			out.Failed++
			if out.Failure == "" {
				out.Failure = text.Line(v.failed, maxReasonText)
			}
		case v.unknown != "":
			out.Unknown++
			if len(out.Unknowns) < maxReasons {
				out.Unknowns = append(out.Unknowns, text.Line(v.unknown, maxReasonText))
			}
		case len(v.differences) > 0:
			out.Different++
			for _, d := range v.differences {
				out.add(d)
			}
		case v.alone:
			out.Alone++
		default:
			out.Same++
		}
	}
	return out
}

// add adds a difference, or counts it if an equal one exists. Times are never equal.
func (r *Report) add(d Difference) {
	for i := range r.Differences {
		if same := &r.Differences[i]; same.Op == d.Op && same.Field == d.Field && (d.Field == "time" || same.Old == d.Old && same.New == d.New) {
			same.Others++
			return
		}
	}
	if len(r.Differences) < maxReasons {
		r.Differences = append(r.Differences, d)
	}
}

// Differs lists the differences on one line of at most 1000 bytes, or is "".
func (r Report) Differs() string {
	if r.Different == 0 {
		return ""
	}
	var all []string
	for _, d := range r.Differences {
		all = append(all, d.String())
	}
	return text.Line(fmt.Sprintf("%d of %d answers differ: %s", r.Different, r.Questions, strings.Join(all, "; ")), maxReportText)
}
