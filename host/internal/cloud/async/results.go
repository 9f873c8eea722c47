package async

import (
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

const (
	// Bounds of the uncollected results of all objects.
	maxResults     = 1000
	maxResultBytes = 32 << 20
	// writeAge is longer than upstream's longest back-off (5 minutes), after which a deletion of
	// a load balancer is asked for again.
	writeAge = 15 * time.Minute
	// readAge is short: answers to questions age.
	readAge = time.Minute
	// freshAge is shorter than a Node's silence before a fresh instance is asked about it: an
	// earlier answer is no evidence.
	freshAge = 30 * time.Second
	// getAge is longer than that back-off, too: upstream asks at the same pace whether a load
	// balancer to be deleted exists.
	getAge = writeAge
	// metadataAge is longer than upstream's period between two questions for a
	// Node's metadata (--node-status-update-frequency, 5 minutes).
	metadataAge = 11 * time.Minute
	// sweepPeriod is the time between two searches for expired results.
	sweepPeriod = 10 * time.Second
)

// The reasons for dropping a result.
const (
	droppedExpired    = "expired"
	droppedSuperseded = "superseded"
	droppedCrowded    = "crowded"
)

// result is an uncollected result of an op in the background.
type result struct {
	*reply
	question *call // the fields that identify the question
	at       time.Time
}

// size counts the answer and its request.
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

// results counts the results of all objects.
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
	if s == nil || s.result == nil || !s.result.question.same(c) {
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

// contradicted reports whether a later list of routes disagrees with the result of a route's
// change: otherwise nobody would ask for the change again. A failure is told in any case.
func (i *Invoker) contradicted(r *result, op abi.Op) bool {
	return op.Group() == abi.GroupRoutes && op.Writes() && r.err == nil && r.at.Before(i.listed)
}

// keep stores the reply of a task for the next caller.
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

// supersede drops the results that op makes invalid. A question leaves the results of
// changes: on the deletion path upstream asks whether the load balancer exists before it
// returns for the result of the deletion. A patient worker would have asked before the
// deletion, so a later answer does not invalidate "deleted": a guest that always answers
// "exists" would have it deleted for ever.
func (i *Invoker) supersede(o *object, op abi.Op) {
	for of, s := range o.ops {
		// Invariant O2 (host/SECURITY.md): the result of a deletion is kept until it is collected,
		// also across questions.
		if s.result == nil || !op.Writes() && of.Writes() {
			continue
		}
		i.drop(s, of, droppedSuperseded)
	}
}

// sweep drops expired results, once per sweepPeriod.
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
