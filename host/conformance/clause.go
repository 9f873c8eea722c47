package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// clause is one rule of the contract.
type clause struct {
	id, text string
	// ops that the clause needs, all of them.
	ops []abi.Op
	// lacks returns why the clause does not apply, or ""; may be nil.
	lacks func(*kit) string
	check func(ctx context.Context, c *check)
}

// needing has the clauses need these ops.
func needing(ops []abi.Op, all []clause) []clause {
	for i := range all {
		all[i].ops = ops
	}
	return all
}

// check is a running clause.
type check struct {
	*kit
	clause clause
	// ended reports the end of the run, which then causes further failures.
	ended func() bool
	note  string
	// idle: there was nothing to test.
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

// failf reports a violation of the clause, with the host calls of an op.
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

// goesOn reports whether more tries are useful: a few failures suffice.
func (c *check) goesOn(ctx context.Context) bool { return ctx.Err() == nil && c.failures < maxFailures }

// trying reports the next try to Progress.
func (c *check) trying(p *plan) {
	c.Progress(Result{ID: c.clause.id, Clause: c.clause.text, Note: p.String()})
}

// notef sets the note about the tries.
func (c *check) notef(format string, args ...any) { c.note = fmt.Sprintf(format, args...) }

// tried sets the note to the number of tries. Zero tries prove nothing.
func (c *check) tried(n int, what string) {
	c.tries += n
	c.notef("%d %s", c.tries, what)
	if c.idle = c.tries == 0; c.idle {
		c.note = "the ops make no request"
	}
}

// Run tests the guest with all clauses. The error means that the kit could not
// be set up, or that the context has ended; the report then has the finished
// clauses and the findings of the last one. Violations by the guest are only in
// the report. Objects that a clause has created are deleted in either case.
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

// IDs of all clauses, in running order.
func IDs() (ids []string) {
	for _, one := range clauses() {
		ids = append(ids, one.id)
	}
	return ids
}

// clauses are all clauses, in running order.
func clauses() (all []clause) {
	for _, group := range [][]clause{
		loadClauses(), instanceClauses(), listClauses(), balancerClauses(), safetyClauses(), crashClauses(), faultClauses(),
		routeClauses(), volumeClauses(), backgroundClauses(), secretClauses(),
	} {
		all = append(all, group...)
	}
	return all
}
