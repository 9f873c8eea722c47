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
	// firstEndurance is that for an op of which nothing is known.
	firstEndurance = 5 * time.Second
	// roomPoll is how often an op looks whether there is room for it.
	roomPoll = 100 * time.Millisecond
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
	switch {
	case op == abi.OpRouteList:
		// Its loop has nothing else to do, and cannot begin without.
		return i.options.OpTimeout + lateGrace
	case !ok && op.Group() == abi.GroupRoutes:
		// The loop changes all routes at once: nobody is behind this one.
		return i.options.Foreground
	case !ok:
		return min(firstPatience, i.options.Foreground)
	}
	patience := min(max(patienceFactor*usual.median(), minPatience), i.options.Foreground)
	switch {
	case op.Group() == abi.GroupRoutes:
		// So one that hangs costs the others twice their time, and all of a slow
		// cloud are made in one round.
		return max(patience, 2*usual.median())
	case i.takesLong(op):
		return min(minPatience, i.options.Foreground)
	}
	return patience
}

// takesLong reports whether an op is one that is not waited for, as it mostly
// takes longer than callers wait, and needs room in the background: upstream
// asks one Node after the other whether it exists, and would come back to the
// first after its answer has expired.
func (i *Invoker) takesLong(op abi.Op) bool {
	usual, ok := i.usual[op]
	return ok && (op == abi.OpInstanceExists || op == abi.OpInstanceShutdown) && usual.median() > i.options.Foreground
}

func (i *Invoker) learn(op abi.Op, took time.Duration) {
	usual, ok := i.usual[op]
	if !ok {
		usual = &durations{}
		i.usual[op] = usual
	}
	usual.add(took)
}

// retryDelay is when to ask again for an op that has taken so long: when it is
// likely to be done, else soon at first, then less and less often.
func (i *Invoker) retryDelay(op abi.Op, took time.Duration) time.Duration {
	delay := took
	if usual, ok := i.usual[op]; ok {
		if median := usual.median(); took < median {
			delay = median + median/8 - took
		}
	}
	return min(max(delay, minRetry), maxRetry)
}

// patienceFor is the patience for a call, given what is known of its object.
func (i *Invoker) patienceFor(t *task) time.Duration {
	switch {
	case t.before.slow && t.before.failures > 0: // it hung: the worker has paid for it once
		return 0
	case t.before.slow:
		return min(minPatience, i.options.Foreground)
	}
	return i.patience(t.op)
}

// endurance is how long an op may take before it is ended for lack of room in
// the background: it may just be of a kind that takes long, and ending it may
// undo what its cloud has half done.
func (i *Invoker) endurance(op abi.Op) time.Duration {
	if usual, ok := i.usual[op]; ok {
		return max(i.patience(op), 2*usual.median())
	}
	return firstEndurance
}
