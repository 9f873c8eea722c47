package async

import (
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

const (
	// Results that nobody collected, over all objects.
	maxResults     = 1000
	maxResultBytes = 32 << 20
	// writeAge is longer than the longest back-off of upstream (5 minutes), on
	// which the deletion of a load balancer comes back.
	writeAge = 15 * time.Minute
	// readAge is short: the answer to a question gets old.
	readAge = time.Minute
	// freshAge is shorter than the time in which a Node must be silent before a
	// fresh instance is asked about it: an answer from before says nothing.
	freshAge = 30 * time.Second
	// getAge is longer than that back-off, too: upstream asks on it whether a
	// load balancer that is to be deleted is there.
	getAge = writeAge
	// metadataAge is longer than upstream's period between two questions for a
	// Node's metadata (--node-status-update-frequency, 5 minutes).
	metadataAge = 11 * time.Minute
	// sweepPeriod is how often old things are looked for.
	sweepPeriod = 10 * time.Second
)

// Why a result was dropped.
const (
	droppedExpired    = "expired"
	droppedSuperseded = "superseded"
	droppedCrowded    = "crowded"
)

// result is the end of an op in the background that waits to be collected.
type result struct {
	*reply
	question *call // as far as it says what was asked
	at       time.Time
}

// size is what is kept: the answer, and the request that it belongs to.
func (r *result) size() int { return len(r.data) + r.question.req.SizeVT() }

func (r *result) expired(op abi.Op, now time.Time) bool {
	age := readAge
	switch {
	case r.question.fresh:
		age = freshAge
	case op.Writes():
		age = writeAge
	case op == abi.OpLoadBalancerGet:
		age = getAge
	case op == abi.OpInstanceMetadata:
		age = metadataAge
	}
	return now.Sub(r.at) > age
}

// results counts those of all objects.
type results struct{ count, bytes int }

func (r *results) put(s *opState, n *result) {
	s.result = n
	r.count++
	r.bytes += n.size()
}

func (r *results) drop(s *opState) {
	r.count--
	r.bytes -= s.result.size()
	s.result = nil
}

// take returns the result of a call, once, or nil.
func (i *Invoker) take(s *opState, c *call, now time.Time) *reply {
	if s.result == nil || !s.result.question.same(c) {
		return nil
	}
	if s.result.expired(c.op, now) {
		i.drop(s, c.op, droppedExpired)
		return nil
	}
	if i.contradicted(s.result, c.op) {
		i.drop(s, c.op, droppedSuperseded)
		return nil
	}
	taken := s.result.reply
	i.results.drop(s)
	return taken
}

// contradicted reports that a route was changed, and that a list which began
// after it shows otherwise: else nobody would ask for the change again. A
// failure is told all the same.
func (i *Invoker) contradicted(r *result, op abi.Op) bool {
	return op.Group() == abi.GroupRoutes && op.Writes() && r.err == nil && r.at.Before(i.listed)
}

// keep stores the reply of a task for whoever asks next.
func (i *Invoker) keep(t *task, o *object) {
	s := o.state(t.op)
	if s.result != nil {
		i.results.drop(s)
	}
	kept := &result{reply: t.reply, question: &call{op: t.op, fresh: t.fresh, nodes: t.nodes, req: t.req}, at: time.Now()}
	for i.results.count >= maxResults || i.results.count > 0 && i.results.bytes+kept.size() > maxResultBytes {
		i.dropOldest()
	}
	i.results.put(s, kept)
}

func (i *Invoker) dropOldest() {
	var oldest *opState
	var of abi.Op
	for _, o := range i.objects {
		for op, s := range o.ops {
			if s.result != nil && (oldest == nil || s.result.at.Before(oldest.result.at)) {
				oldest, of = s, op
			}
		}
	}
	i.drop(oldest, of, droppedCrowded)
}

func (i *Invoker) drop(s *opState, op abi.Op, reason string) {
	i.results.drop(s)
	i.options.Observer.ResultDropped(op, reason)
}

// supersede drops the results that do not hold any more once op runs. A
// question leaves those of changes: on the deletion path upstream asks whether
// the load balancer is there before it comes back for how its deletion ended. A
// worker that had waited would have asked before, not after, so what is
// answered now takes nothing away from "deleted": a guest that knows no better
// than to say that it is there would have it deleted for ever.
func (i *Invoker) supersede(o *object, op abi.Op) {
	for of, s := range o.ops {
		// Invariant O2 (host/SECURITY.md): how a deletion ended is kept until it is asked for, also
		// when questions come between.
		if s.result == nil || !op.Writes() && of.Writes() {
			continue
		}
		i.drop(s, of, droppedSuperseded)
	}
}

// sweep drops what is too old, now and then.
func (i *Invoker) sweep(now time.Time) {
	if now.Sub(i.swept) < sweepPeriod {
		return
	}
	i.swept = now
	for key, o := range i.objects {
		for op, s := range o.ops {
			if s.result != nil && s.result.expired(op, now) {
				i.drop(s, op, droppedExpired)
			}
			if now.Sub(s.at) > memory {
				s.record = record{}
			}
		}
		i.tidy(key, o)
	}
}
