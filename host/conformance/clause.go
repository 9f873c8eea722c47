package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// clause is one thing that has to hold.
type clause struct {
	id, text string
	// ops are needed, all of them.
	ops []abi.Op
	// lacks says why the clause does not apply, or ""; may be nil.
	lacks func(*kit) string
	check func(ctx context.Context, c *check)
}

// check is a clause that runs.
type check struct {
	*kit
	clause clause
	// ended reports whether the run is: what fails then is the end's doing.
	ended func() bool
	note  string
	// idle: there was nothing to try.
	idle     bool
	tries    int
	failures int
	evidence []string
}

// Bounds of the evidence of one clause.
const (
	maxFailures = 5
	maxCalls    = 40
)

// failf says that the clause does not hold, with the host calls of an op.
func (c *check) failf(o outcome, format string, args ...any) {
	if c.ended() {
		return
	}
	c.failures++
	if c.failures > maxFailures {
		return
	}
	c.evidence = append(c.evidence, fmt.Sprintf(format, args...))
	c.evidence = append(c.evidence, o.crash()...)
	for i, e := range o.trace {
		if i == maxCalls {
			c.evidence = append(c.evidence, fmt.Sprintf("  ... %d more", len(o.trace)-i))
			break
		}
		c.evidence = append(c.evidence, "  "+e.String())
	}
}

// goesOn reports whether it makes sense to try more: after some failures all
// is said.
func (c *check) goesOn(ctx context.Context) bool { return ctx.Err() == nil && c.failures < maxFailures }

// trying tells who waits what comes next.
func (c *check) trying(p *plan) {
	c.Progress(Result{ID: c.clause.id, Clause: c.clause.text, Note: p.String()})
}

// notef says what was tried.
func (c *check) notef(format string, args ...any) { c.note = fmt.Sprintf(format, args...) }

// tried notes how often something was tried. Never is no proof of anything.
func (c *check) tried(n int, what string) {
	c.tries += n
	c.notef("%d %s", c.tries, what)
	if c.idle = c.tries == 0; c.idle {
		c.note = "the ops make no request"
	}
}

// Run walks the guest through all clauses. The error says that the kit itself
// could not be set up, or that the context has ended, with a report of the
// clauses before and of what the last one had found; what is wrong with the guest stands in the report. Objects
// that a clause has made are deleted in either case.
func Run(ctx context.Context, o Options) (Report, error) {
	k, err := newKit(ctx, o)
	if err != nil {
		return Report{}, fmt.Errorf("conformance: %w", err)
	}
	defer k.close(context.WithoutCancel(ctx))
	k.loaded = k.load(ctx)
	report := Report{Guest: k.manifest.Name, Version: k.manifest.Version}
	for _, one := range clauses() {
		if k.Only != nil && !k.Only.MatchString(one.id) {
			continue
		}
		report.Results = append(report.Results, k.run(ctx, one))
		if err := ctx.Err(); err != nil {
			return report, fmt.Errorf("conformance: ended in %s: %w", one.id, err)
		}
	}
	return report, nil
}

func (k *kit) run(ctx context.Context, one clause) Result {
	r := Result{ID: one.id, Clause: one.text}
	k.Progress(r)
	start := time.Now()
	if why := k.inapplicable(one); why != "" {
		r.Verdict, r.Note = NotApplicable, why
	} else {
		c := &check{kit: k, clause: one, ended: func() bool { return ctx.Err() != nil }}
		k.restart(ctx)
		one.check(ctx, c)
		r.Verdict, r.Note = Pass, c.note
		switch {
		case c.failures > 0:
			r.Verdict, r.Evidence = Fail, c.evidence
		case c.idle:
			r.Verdict = NotApplicable
		}
		if more := c.failures - maxFailures; more > 0 {
			r.Evidence = append(r.Evidence, fmt.Sprintf("and %d more", more))
		}
	}
	if ctx.Err() != nil {
		r.Verdict = Ended
	}
	r.Took, r.Note = time.Since(start), k.network.scrub(r.Note)
	for i := range r.Evidence {
		r.Evidence[i] = k.network.scrub(r.Evidence[i])
	}
	k.Progress(r)
	return r
}

func (k *kit) inapplicable(one clause) string {
	if k.loaded != nil && one.id != "load" {
		return "the guest did not load"
	}
	if k.Except != nil && k.Except.MatchString(one.id) {
		return "it was left out: " + k.Except.String()
	}
	for _, op := range one.ops {
		if !k.slot.Supports(op) {
			return "the guest has no " + op.String()
		}
	}
	if one.lacks != nil {
		return one.lacks(k)
	}
	return ""
}

// IDs are those of all clauses, in the order in which they run.
func IDs() (ids []string) {
	for _, one := range clauses() {
		ids = append(ids, one.id)
	}
	return ids
}

// clauses are all of them, in the order in which they run.
func clauses() (all []clause) {
	for _, group := range [][]clause{
		loadClauses(), instanceClauses(), listClauses(), balancerClauses(), safetyClauses(), crashClauses(), faultClauses(),
		routeClauses(), volumeClauses(), backgroundClauses(), secretClauses(),
	} {
		all = append(all, group...)
	}
	return all
}
