package shadow

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Asker asks a generation one op. It hands the context on to the host calls of
// the op, which go through Host, and returns soon after the context has ended.
// The guest's answer is a code and a response, or an *abi.Error; any other
// error says that there is none. The response is not kept.
type Asker interface {
	Ask(ctx context.Context, op abi.Op, request []byte) (abi.Code, []byte, error)
}

// ReplayOptions bound a replay. What is not above zero takes its default.
type ReplayOptions struct {
	// Concurrency is how many ops are asked at the same time; 2.
	Concurrency int
	// PerOp is the time of one op; 10 seconds.
	PerOp time.Duration
	// MaxDifferences bounds Report.Differences and Report.Unanswered; 20.
	MaxDifferences int
}

// Replay asks the samples again and compares the answers. It returns when all
// are answered, or soon after the context has ended: what was not answered
// until then counts as incomparable.
func Replay(ctx context.Context, samples []*Sample, asker Asker, options ReplayOptions) Report {
	options.PerOp = orDefault(options.PerOp, 10*time.Second)
	verdicts := make([]verdict, len(samples))
	indexes := make(chan int)
	var workers sync.WaitGroup
	for range min(orDefault(options.Concurrency, 2), len(samples)) {
		workers.Go(func() {
			for i := range indexes {
				verdicts[i] = judge(ctx, samples[i], asker, options.PerOp)
			}
		})
	}
	for i := range samples {
		indexes <- i
	}
	close(indexes)
	workers.Wait()
	return newReport(verdicts, orDefault(options.MaxDifferences, 20))
}

// verdict is the comparison of one sample: the same when it is empty.
type verdict struct {
	differences []Difference
	// unanswered is why the answers cannot be compared, or "".
	unanswered string
}

// judge repeats one sample. An equal answer counts as the same, even when a
// recorded host call was missing. A trap is always the fault of the guest. A
// late guest may only be retrying.
func judge(ctx context.Context, s *Sample, asker Asker, perOp time.Duration) verdict {
	if ctx.Err() != nil {
		return verdict{unanswered: s.about() + " was not asked: the time is over"}
	}
	p := newPlayer(s)
	opCtx, cancel := context.WithTimeout(context.WithValue(ctx, contextKey{}, p), perOp)
	defer cancel()
	o := newOutcome(asker.Ask(opCtx, s.op, []byte(s.request)))
	late := o.err != nil && (opCtx.Err() != nil || errors.Is(o.err, context.DeadlineExceeded))
	if late {
		o.err = errLate
	}
	differences, ok := s.compareWith(o)
	missing := p.firstMissing()
	switch {
	case !ok:
		return verdict{unanswered: s.about() + ": the recorded answer does not decode"}
	case len(differences) == 0:
		return verdict{}
	case late && ctx.Err() != nil:
		return verdict{unanswered: s.about() + " was not answered: the time is over"}
	case missing != "" && (o.err == nil || late):
		return verdict{unanswered: text.Line(s.about()+" "+missing, maxReasonText)}
	}
	for i := range differences {
		differences[i].Op, differences[i].Object = s.op.String(), s.Object()
	}
	return verdict{differences: differences}
}

var errLate = errors.New("no answer in time")

// compareWith compares the outcome with the recorded answer, and reports
// whether that can be done.
func (s *Sample) compareWith(o outcome) ([]Difference, bool) {
	_, older := s.op.New()
	_, newer := s.op.New()
	if s.code == abi.CodeOK && wire.Unmarshal([]byte(s.response), older) != nil {
		return nil, false
	}
	switch {
	case o.err != nil:
		return s.noAnswer(o.err.Error()), true
	case o.code != s.code:
		return []Difference{{Field: "code", Old: s.code.String(), New: o.code.String()}}, true
	case o.code != abi.CodeOK:
		return nil, true
	}
	if err := wire.Unmarshal(o.response, newer); err != nil {
		return s.noAnswer("the answer does not decode: " + err.Error()), true
	}
	return compare(older, newer), true
}

func (s *Sample) noAnswer(why string) []Difference {
	return []Difference{{Field: "error", Old: s.code.String(), New: text.Line(why, maxErrorText)}}
}

func newReport(verdicts []verdict, most int) Report {
	r := Report{Samples: len(verdicts)}
	for _, v := range verdicts {
		switch {
		case v.unanswered != "":
			r.Incomparable++
			if len(r.Unanswered) < most {
				r.Unanswered = append(r.Unanswered, v.unanswered)
			}
		case len(v.differences) > 0:
			r.Different++
			for _, d := range v.differences {
				r.add(d, most)
			}
		default:
			r.Same++
		}
	}
	return r
}
