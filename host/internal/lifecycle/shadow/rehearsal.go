package shadow

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
)

// An op is reported as slow if its own time exceeds slowAtLeast, and slowTimes the serving
// generation's time for the same question.
const (
	slowAtLeast = time.Second
	slowTimes   = 5
)

// Rehearsal asks a generation questions. It is used once.
type Rehearsal struct {
	// Candidate is asked, and compared with Serving, which may be nil.
	Candidate, Serving Asker
	// Check says why the manager would refuse the response of an op, which has the code OK. The
	// error does not quote the request.
	Check func(op abi.Op, response []byte) error
	// Concurrency bounds the concurrent questions, to the candidate and to the serving
	// generation. OwnTime bounds the time in the guest itself: a slow cloud is not the guest's
	// fault, and has until the context ends.
	Concurrency int
	OwnTime     time.Duration

	requests, kept atomic.Int64
	wrote          atomic.Pointer[string] // by the candidate
}

// Run asks the questions, and returns when all are answered, soon after the context has
// ended, or soon after the first failure: the rest counts as unknown.
func (r *Rehearsal) Run(ctx context.Context, questions []Question) Report {
	return r.each(ctx, questions, r.compared)
}

// Examine asks the candidate as the manager asks the serving generation, without a
// comparison.
func (r *Rehearsal) Examine(ctx context.Context, questions []Question) Report {
	return r.each(ctx, questions, func(ctx context.Context, q Question) verdict {
		return weigh(q, r.candidate(ctx, q, true), answer{unknown: "nobody"})
	})
}

func (r *Rehearsal) each(ctx context.Context, questions []Question, ask func(context.Context, Question) verdict) Report {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	verdicts := make([]verdict, len(questions))
	indexes := make(chan int)
	var workers sync.WaitGroup
	for range min(max(1, r.Concurrency), len(questions)) {
		workers.Go(func() {
			for i := range indexes {
				if ctx.Err() != nil {
					verdicts[i].unknown = questions[i].String() + " was not asked"
					continue
				}
				verdicts[i] = ask(ctx, questions[i])
				if verdicts[i].failed != "" {
					cancel()
				}
			}
		})
	}
	for i := range questions {
		indexes <- i
	}
	close(indexes)
	workers.Wait()
	return r.report(verdicts)
}

// verdict is the result of a question: at most one of its members is set, none for a right
// answer.
type verdict struct {
	failed, unknown string
	differences     []Difference
	// alone: right as far as can be seen without another answer.
	alone bool
}

// compared asks a question. With the record both generations see the same cloud. An equal
// answer counts, whatever host calls led to it. If the candidate asked the cloud for
// something unrecorded, both are asked anew, without the record.
func (r *Rehearsal) compared(ctx context.Context, q Question) verdict {
	if q.sample == nil {
		return r.live(ctx, q)
	}
	a := r.candidate(ctx, q, false)
	differences := between(q, answer{outcome: q.sample.outcome()}, a)
	switch {
	case a.over:
		return weigh(q, a, answer{})
	case a.failed != "", len(differences) == 0 && a.own > slowAtLeast:
		return weigh(q, a, r.reference(ctx, q))
	case len(differences) == 0:
		return verdict{}
	case !a.left:
		return verdict{differences: differences}
	}
	q.sample = nil
	return r.live(ctx, q)
}

// live asks both at the same time. A difference by chance, or by a change of the cloud, does
// not occur twice.
func (r *Rehearsal) live(ctx context.Context, q Question) (v verdict) {
	for range 2 {
		var serving answer
		var asked sync.WaitGroup
		asked.Go(func() { serving = r.reference(ctx, q) })
		a := r.candidate(ctx, q, false)
		asked.Wait()
		if v = weigh(q, a, serving); len(v.differences) == 0 {
			break
		}
	}
	return v
}

func (r *Rehearsal) candidate(ctx context.Context, q Question, open bool) answer {
	a := r.ask(ctx, r.Candidate, q, open)
	if a.wrote != "" {
		r.wrote.CompareAndSwap(nil, &a.wrote)
	}
	return a
}

func (r *Rehearsal) reference(ctx context.Context, q Question) answer {
	if r.Serving == nil {
		return answer{unknown: "nothing serves"}
	}
	return r.ask(ctx, r.Serving, q, false)
}

// weigh compares the candidate's answer with the serving generation's. A failure of both is
// not the candidate's fault; a failure of the candidate alone is. A cloud that is slow for
// both makes no difference.
func weigh(q Question, a, serving answer) verdict {
	switch {
	case a.failed != "" && serving.failed != "":
		return verdict{unknown: fmt.Sprintf("%s: %s; so does the serving module", q, a.failed)}
	case a.failed != "":
		return verdict{failed: fmt.Sprintf("%s: %s", q, a.failed)}
	case a.unknown != "" && (a.over || serving.failed+serving.unknown != "" || a.err != nil && serving.took > a.took/2):
		return verdict{unknown: fmt.Sprintf("%s: %s", q, a.unknown)}
	case serving.failed+serving.unknown != "":
		return verdict{alone: true}
	}
	if differences := between(q, serving, a); len(differences) > 0 {
		return verdict{differences: differences}
	}
	if a.own > slowAtLeast && a.own > slowTimes*serving.own {
		return verdict{differences: []Difference{{Op: q.Op.String(), Object: q.object(), Field: "time", Old: short(serving.own), New: short(a.own)}}}
	}
	return verdict{}
}

func short(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// between compares two answers; the older one is proper.
func between(q Question, older, newer answer) []Difference {
	_, before := q.Op.New()
	_, now := q.Op.New()
	var found []Difference
	switch {
	case newer.err != nil, newer.unknown != "" && newer.wrote != "":
		found = []Difference{{Field: "error", Old: older.code.String(), New: newer.failed + newer.unknown}}
	case older.code != newer.code:
		found = []Difference{{Field: "code", Old: older.code.String(), New: newer.code.String()}}
	case older.code != abi.CodeOK:
	case wire.Unmarshal(older.response, before) != nil || wire.Unmarshal(newer.response, now) != nil:
		found = []Difference{{Field: "error", Old: older.code.String(), New: "the answer does not decode"}}
	default:
		found = compare(before, now)
	}
	for i := range found {
		found[i].Op, found[i].Object = q.Op.String(), q.object()
	}
	return found
}
