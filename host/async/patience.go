package async

import (
	"slices"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

const (
	// minPatience is waited for even the fastest provider: a pause of the
	// machine is not a slow op.
	minPatience = 50 * time.Millisecond
	// firstPatience is waited as long as nothing is known.
	firstPatience = 100 * time.Millisecond
	// patienceFactor times the usual time of an op is waited. It is below
	// 10: then one op that hangs costs less than a tenth of the time of 100
	// that do not.
	patienceFactor = 8
)

// durations are the times that the last ops of a kind took.
type durations struct {
	last [31]time.Duration
	n    int // how many there were, ever
}

func (d *durations) add(took time.Duration) {
	d.last[d.n%len(d.last)] = took
	d.n++
}

// median is robust: a few slow ops do not make callers wait longer.
func (d *durations) median() time.Duration {
	known := d.last // a copy
	sorted := known[:min(d.n, len(known))]
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}

// patience is how long a caller waits for an op in the foreground.
func (i *Invoker) patience(op abi.Op) time.Duration {
	usual, ok := i.usual[op]
	if !ok {
		return min(firstPatience, i.options.Foreground)
	}
	return min(max(patienceFactor*usual.median(), minPatience), i.options.Foreground)
}

func (i *Invoker) learn(op abi.Op, took time.Duration) {
	usual, ok := i.usual[op]
	if !ok {
		usual = &durations{}
		i.usual[op] = usual
	}
	usual.add(min(took, i.options.Foreground))
}

// patienceFor is the patience for a call, given what is known of its object.
func (i *Invoker) patienceFor(t *task) time.Duration {
	switch {
	case t.slow && t.failures > 0: // it hung: the worker has paid for it once
		return 0
	case t.slow:
		return min(minPatience, i.options.Foreground)
	case i.usual[t.op] == nil && !i.rooms.roomBehind():
		// It would be ended, and may just be of a kind that takes long.
		return i.options.Foreground
	}
	return i.patience(t.op)
}
