package shadow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/writegate"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Question is a read-only op with its request.
type Question struct {
	Op      abi.Op
	Request []byte
	// About adds to a context what host calls know of the op; nil: nothing.
	About func(context.Context) context.Context
	// sample has the serving generation's answer, and its host calls; nil: none.
	sample *Sample
}

// String is the op and its object: the name of a node or volume, or the namespace/name of a
// Service. It is printable and bounded.
func (q Question) String() string {
	if object := q.object(); object != "" {
		return q.Op.String() + " " + object
	}
	return q.Op.String()
}

func (q Question) object() string { return text.Line(objectOf(q.Op, q.Request), maxObjectText) }

// Same reports whether both ask the same about the same object.
func (q Question) Same(other Question) bool {
	return sampleKeyOf(q.Op, q.Request) == sampleKeyOf(other.Op, other.Request)
}

// Asker runs one op in a generation. It hands the context on to the host calls of the op,
// which go through Host, and returns soon after the context has ended. The guest's answer is
// a code and a response, or an *abi.Error; any other error means no answer. The response is
// not kept. *plugin.Generation is one.
type Asker interface {
	Ask(ctx context.Context, op abi.Op, request []byte) (abi.Code, []byte, error)
}

// answer is the result of one question.
type answer struct {
	outcome
	// failed is the guest's fault, unknown the reason for a missing answer; at most one of them
	// is set, and neither for a proper answer.
	failed, unknown string
	// wrote is the first suppressed write, or "".
	wrote string
	// took is the whole time, own the guest's own.
	took, own time.Duration
	// left: some host calls were really made. over: the rehearsal's time ran out.
	left, over bool
}

// tries bounds how often a question is asked that gave way to other ops. Internal counts at
// the second answer: the cloud may have stumbled.
const tries = 3

// ask asks a question: as a rehearsal, or openly.
func (r *Rehearsal) ask(ctx context.Context, asker Asker, q Question, open bool) (a answer) {
	for n := range tries {
		a = r.askOnce(ctx, asker, q, open)
		stumbled := n == 0 && a.failed != "" && a.code == abi.CodeInternal
		if !stumbled && !errors.Is(a.err, plugin.ErrGaveWay) {
			break
		}
	}
	return a
}

func (r *Rehearsal) askOnce(ctx context.Context, asker Asker, q Question, open bool) answer {
	limit, cancel := context.WithCancel(ctx)
	defer cancel()
	p, gate := newPlayer(q.sample, newStopwatch(r.OwnTime, cancel)), &writegate.Gate{}
	p.open = open
	asked := context.WithValue(limit, contextKey{}, p)
	if !open {
		asked = writegate.NewContext(asked, gate)
	}
	if q.About != nil {
		asked = q.About(asked)
	}
	begun := time.Now()
	o := newOutcome(asker.Ask(asked, q.Op, q.Request))
	requests, kept := gate.Counts()
	r.requests.Add(int64(requests))
	r.kept.Add(int64(kept))
	p.mu.Lock()
	defer p.mu.Unlock()
	a := answer{outcome: o, took: time.Since(begun), own: p.own.stop(), left: p.left, wrote: text.Line(gate.Refused(), maxReasonText)}
	late := o.err != nil && (limit.Err() != nil || errors.Is(o.err, context.DeadlineExceeded))
	switch {
	case ctx.Err() != nil:
		a.unknown, a.over = "the time is over", true
	case errors.Is(o.err, plugin.ErrGaveWay):
		a.unknown, a.over = o.err.Error(), true
	case late && a.own < min(r.OwnTime, a.took/2):
		a.unknown = fmt.Sprintf("the cloud has not answered within %v", a.took.Round(time.Millisecond))
	case late:
		a.failed = fmt.Sprintf("no answer within %v", a.took.Round(time.Millisecond))
	default:
		a.judge(q, r.Check)
	}
	return a
}

// judge decides whether a timely answer is proper. A trap is always the guest's fault: it
// must survive every answer of a host call.
func (a *answer) judge(q Question, check func(abi.Op, []byte) error) {
	switch {
	case a.err != nil:
		a.failed = text.Line(a.err.Error(), maxErrorText)
	case a.code == abi.CodeOK:
		if err := check(q.Op, a.response); err != nil {
			a.failed = text.Line(err.Error(), maxErrorText)
		}
	case !q.Op.MayAnswer(a.code):
		a.failed = fmt.Sprintf("it answers %s, which is no answer to it", a.code)
	case a.proper():
	case a.wrote != "":
		a.unknown = a.wrote
	case a.code == abi.CodeInternal:
		a.failed = "it answers internal"
	default:
		a.unknown = "it answers " + a.code.String()
	}
}
