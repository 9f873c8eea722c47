package async

import (
	"slices"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

const (
	// minPatience applies even to the fastest provider: a pause of the machine is not a slow op.
	minPatience = 50 * time.Millisecond
	// firstPatience applies before durations are known. It is less than the second that a hung
	// op may cost another object.
	firstPatience = 500 * time.Millisecond
	// firstEndurance is the endurance of an op with unknown duration.
	firstEndurance = 5 * time.Second
	// roomPoll is how often an op looks for room.
	roomPoll = 100 * time.Millisecond
	// lookPeriod is how often a patient caller looks at newly learned durations.
	lookPeriod = time.Second
	// patienceFactor is the patience in multiples of the op's median duration. Below 10, one
	// hung op costs less than a tenth of the time of 100 that answer.
	patienceFactor = 8
	// passFactor is the same for a call in a pass.
	passFactor = 3
)

// durations are the last durations of one op.
type durations struct {
	last [31]time.Duration
	n    int // count since the start
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
		// Its loop can do nothing else before the answer.
		return i.options.OpTimeout + lateGrace
	case !ok && op.Group() == abi.GroupRoutes:
		// The loop changes all routes in parallel: no other call waits for this one.
		return i.options.Foreground
	case !ok:
		return min(firstPatience, i.options.Foreground)
	}
	patience := min(max(patienceFactor*usual.median(), minPatience), i.options.Foreground)
	switch {
	case op.Group() == abi.GroupRoutes:
		// A hung op costs the others at most twice their time, and a slow cloud makes all routes in
		// one round.
		return max(patience, 2*usual.median())
	case i.takesLong(op):
		return min(minPatience, i.options.Foreground)
	}
	return patience
}

// takesLong reports whether an op goes straight to the background, since it mostly takes
// longer than callers wait, and there is room: upstream asks about one Node after another,
// and would return to the first after its answer has expired.
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

// retryDelay is when to ask again for an op that has taken so long: at its likely end, else
// soon at first, then less and less often.
func (i *Invoker) retryDelay(op abi.Op, took time.Duration) time.Duration {
	delay := took
	if usual, ok := i.usual[op]; ok {
		if median := usual.median(); took < median {
			delay = median + median/8 - took
		}
	}
	return min(max(delay, minRetry), maxRetry)
}

// ordinary is how long an op of a patient caller takes at most before it counts as unusually
// long. An op on a load balancer is compared with an ensure, which mostly came first. Before
// durations are known it is the default deadline: with a longer deadline of the
// administrator, a hung op would hold its instance for that time.
func (i *Invoker) ordinary(op abi.Op) time.Duration {
	usual, known := i.usual[op]
	_, similar := i.usual[abi.OpLoadBalancerEnsure]
	switch {
	case known && (op == abi.OpLoadBalancerUpdate || op.Group() == abi.GroupInstances):
		// A cloud that takes a second is not slow, and a caller that leaves an update has to ensure
		// the whole load balancer.
		return max(passFactor*usual.median(), i.options.Foreground)
	case known:
		return i.endurance(op)
	case op == abi.OpLoadBalancerUpdate && similar:
		return max(i.endurance(abi.OpLoadBalancerEnsure), firstEndurance)
	case op == abi.OpLoadBalancerUpdate:
		return firstEndurance
	case similar && op.Group() == abi.GroupLoadBalancers:
		return i.endurance(abi.OpLoadBalancerEnsure)
	}
	return min(i.options.OpTimeout, defaultOpTimeout) + lateGrace
}

// isLong reports whether a caller waits for an op that may take longer than other calls wait
// for an instance.
func (i *Invoker) isLong(c *call) bool { return c.patient && i.ordinary(c.op) > i.options.Foreground }

// isSlow reports whether an op took unusually long. An op without an answer did if an
// impatient caller would have left it.
func (i *Invoker) isSlow(t *task, took time.Duration, answered bool) bool {
	switch {
	case t.patient && answered:
		return took > i.ordinary(t.op)
	case t.patient:
		return took > min(i.ordinary(t.op), i.options.Foreground)
	}
	return took > i.patience(t.op)
}

// patienceFor is the patience for a call, given the record of its object.
func (i *Invoker) patienceFor(t *task) time.Duration {
	switch {
	case t.before.slow && t.before.failures > 0: // it hung, and cost the worker its patience once
		return 0
	case t.patient:
		return i.ordinary(t.op)
	case t.before.slow:
		return min(minPatience, i.options.Foreground)
	}
	return i.patience(t.op)
}

// endurance is how long an op may take before it is ended for lack of room in the
// background: some ops take long, and ending them may undo what the cloud has half done.
func (i *Invoker) endurance(op abi.Op) time.Duration {
	if usual, ok := i.usual[op]; ok {
		return max(i.patience(op), 2*usual.median())
	}
	return firstEndurance
}
