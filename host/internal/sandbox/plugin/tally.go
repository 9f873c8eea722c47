package plugin

import (
	"context"
	"errors"
	"sync"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// recentOps is the number of outcomes in Recent.
const recentOps = 256

// Tally counts ops and the guest's failures among them: a trap, a deadline, an answer that
// cannot be decoded, or the code internal. Any other answer is no failure of the guest,
// however bad it is.
type Tally struct{ Ops, Failures int }

// tally counts the outcomes of one generation. It is safe for concurrent use.
type tally struct {
	mu     sync.Mutex
	total  Tally
	recent [recentOps]bool // a ring buffer: whether the op failed
	last   error           // of the last failure
	ops    map[abi.Op]int
	// failed gets a value after a failure, unless one is waiting there.
	failed chan struct{}
}

func newTally() *tally { return &tally{failed: make(chan struct{}, 1), ops: map[abi.Op]int{}} }

func (t *tally) count(ctx context.Context, op abi.Op, err error) {
	failure := isFailure(ctx, err)
	t.mu.Lock()
	t.ops[op]++
	t.recent[t.total.Ops%recentOps] = failure
	t.total.Ops++
	if failure {
		t.total.Failures++
		t.last = err
	}
	t.mu.Unlock()
	if failure {
		select {
		case t.failed <- struct{}{}:
		default:
		}
	}
}

// isFailure excludes ops whose caller left, or that gave way.
func isFailure(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	if answer, ok := errors.AsType[*abi.Error](err); ok {
		return answer.Code == abi.CodeInternal
	}
	return !errors.Is(ctx.Err(), context.Canceled)
}

// Tally counts the generation's ops since its takeover.
func (g *Generation) Tally() Tally {
	g.tally.mu.Lock()
	defer g.tally.mu.Unlock()
	return g.tally.total
}

// Calls counts the calls of an op since the takeover.
func (g *Generation) Calls(op abi.Op) int {
	g.tally.mu.Lock()
	defer g.tally.mu.Unlock()
	return g.tally.ops[op]
}

// Recent is the tally of the last ops, 256 at most.
func (g *Generation) Recent() (r Tally) {
	g.tally.mu.Lock()
	defer g.tally.mu.Unlock()
	r.Ops = min(g.tally.total.Ops, recentOps)
	for _, failed := range g.tally.recent[:r.Ops] {
		if failed {
			r.Failures++
		}
	}
	return r
}

// LastFailure is the error of the last failure, or nil.
func (g *Generation) LastFailure() error {
	g.tally.mu.Lock()
	defer g.tally.mu.Unlock()
	return g.tally.last
}

// Failed has a value after a failure. One reader may use it.
func (g *Generation) Failed() <-chan struct{} { return g.tally.failed }
