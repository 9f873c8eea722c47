package brake

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// nodeKey tells a Node from a later one of the same name.
type nodeKey struct{ name, uid string }

func keyOf(node *corev1.Node) nodeKey { return nodeKey{node.Name, string(node.UID)} }

// candidate is a Node that the provider says is gone. It is guarded by
// Brake.mu.
type candidate struct {
	key nodeKey
	// first is when the provider began to say so, said when it did last, and
	// since is when the grace period began: a sign of life begins it anew.
	first, said, since time.Time
	grace              time.Duration
	// missing is since when the Node is not Ready.
	missing time.Time
	// status and renewed are the last heartbeats that were seen, in the Node's
	// status and in its Lease, by the kubelet's clock; based says that the Lease
	// was looked at.
	status, renewed time.Time
	based           bool
	lived           time.Time // the last sign of life, by this clock
	accused         bool      // it was held against the provider
	counts          bool      // it needs a permit, and has none
	granted         bool      // it has had its permit, and its deletion failed
	// turn is since when nothing but questions is between it and its deletion.
	turn time.Time
	told map[Reason]bool
	// later is since when the question of laterTo is put off.
	later   time.Time
	laterTo Reason
	next    time.Time // when it is asked about again
	hold    Hold      // why it stays, as it was decided last
}

type candidates map[nodeKey]*candidate

const (
	// forgetAfter is how long the provider may give no answer before what it
	// said is forgotten.
	forgetAfter = 15 * time.Minute
	// rankAfter is how long a Node without an answer keeps its place.
	rankAfter = 5 * time.Minute
	// turnTime is how long a Node may hold up others with questions that are
	// not answered.
	turnTime = 5 * time.Minute
	// explainAfter is when a Node that only waits says why.
	explainAfter = time.Minute
	// lieAfter is how long a kubelet may live on after its machine is said to
	// be gone. Clouds forget a machine when its deletion is ordered; shutting it
	// down takes a few minutes at most.
	lieAfter = 5 * time.Minute
	// lookPeriod bounds the work of going through all candidates and Nodes.
	lookPeriod = time.Second
	// calm is how long nothing must be held before the brake is off.
	calm = 5 * time.Minute
)

// said notes that the provider says again that the Node is gone.
func (b *Brake) said(node *corev1.Node, own terms) *candidate {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, key := b.now(), keyOf(node)
	c, ok := b.gone[key]
	if !ok || now.Sub(c.said) > forgetAfter {
		c = &candidate{key: key, first: now, since: now, status: heartbeat(node), told: map[Reason]bool{}}
		b.gone[key] = c
	}
	if beat := heartbeat(node); !beat.Equal(c.status) {
		c.status = beat
		c.lives(now)
	}
	c.said, c.grace, c.missing = now, c.patient(own.grace), notReadySince(node)
	c.counts = !own.never && !own.unbraked && !marked(node) && !c.granted
	return c
}

// lives begins the grace period anew.
func (c *candidate) lives(now time.Time) {
	c.since, c.lived, c.granted, c.turn = now, now, false, time.Time{}
}

// again begins the grace period anew after an answer that contradicts.
func (b *Brake) again(c *candidate) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.since, c.turn = b.now(), time.Time{}
}

func (b *Brake) granted(c *candidate) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return c.granted
}

// forget is for a Node that exists.
func (b *Brake) forget(node *corev1.Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.gone, keyOf(node))
}

// waited holds a Node during its grace period.
func (b *Brake) waited(ctx context.Context, node *corev1.Node, c *candidate) *Hold {
	b.mu.Lock()
	based := c.based
	b.mu.Unlock()
	if !based {
		if hold := b.base(ctx, c); hold != nil {
			return hold
		}
	}
	b.mu.Lock()
	now := b.now()
	wait, waiting, alive := c.since.Add(c.grace).Sub(now), now.Sub(c.first), !c.lived.IsZero()
	lie := !c.accused && known(node) && c.lived.Sub(c.first) >= lieAfter
	c.accused = c.accused || lie
	b.mu.Unlock()
	if lie {
		b.contradict(ctx, node, ByKubelet)
	}
	switch {
	case wait <= 0:
		return nil
	case waiting < explainAfter:
	case !known(node):
		return holdf(ReasonNotYetKnown, "the provider has never known it, so it is not called gone before its kubelet was silent for %v. Is its machine missing in the provider's inventory?", c.grace)
	case alive:
		return holdf(ReasonAlive, "its kubelet is alive")
	}
	return inGrace()
}

func inGrace() *Hold { return holdf(ReasonGrace, "its grace period is not over") }

// turn holds a Node while others come first. What is allowed goes to those
// that have not been Ready for the longest time.
func (b *Brake) turn(ctx context.Context, _ *corev1.Node, c *candidate) *Hold {
	if err := b.opened(ctx); err != nil {
		return holdf(ReasonNoRecord, "the record of the deletion brake cannot be read: %v", err)
	}
	b.mu.Lock()
	now, r := b.now(), b.options.rate(b.census.size)
	b.book.bucket.fill(now, r)
	bucket, ahead := b.book.bucket, 0
	if bucket.Permits >= 1 || !c.told[ReasonNoPermit] { // it is work, with thousands of Nodes
		ahead = b.gone.ahead(c, now)
	}
	if float64(ahead)+1 <= bucket.Permits {
		defer b.mu.Unlock()
		return c.takes(now)
	}
	c.turn, b.refused = time.Time{}, now
	changed := !b.engaged
	b.engaged = true
	status := b.status(now)
	b.mu.Unlock()
	if changed {
		b.options.Observer.Engaged(status)
	}
	return holdf(ReasonNoPermit, "the provider says so of %d of %d Nodes; %.0f may go at once and %.0f in %v, those first that have not been Ready for the longest time, so it may go in %v",
		status.Gone, status.Size, r.most, r.refill, r.period, bucket.wait(float64(ahead)+1, now, r).Round(time.Second))
}

// takes begins the turn, or ends it when it took too long.
func (c *candidate) takes(now time.Time) *Hold {
	// Invariant N8 (host/SECURITY.md): one whose questions fail does not keep the others for ever.
	switch {
	case c.turn.IsZero():
		c.turn = now
	case now.Sub(c.turn) > turnTime:
		c.since, c.turn = now, time.Time{}
		return inGrace() // others come first
	}
	return nil
}

// ahead counts those that may go before c.
func (all candidates) ahead(c *candidate, now time.Time) (n int) {
	for _, other := range all {
		if other != c && other.due(now) && other.before(c) {
			n++
		}
	}
	return n
}

// due reports whether only a permit is missing.
func (c *candidate) due(now time.Time) bool {
	return c.counts && now.Sub(c.since) >= c.grace && now.Sub(c.said) <= rankAfter
}

func (c *candidate) before(other *candidate) bool {
	if !c.missing.Equal(other.missing) {
		return c.missing.Before(other.missing)
	}
	return c.key.name < other.key.name
}

// look goes through what is known, now and then: Nodes that left the cluster by
// another way, or are Ready again, of which nobody asks any more.
func (b *Brake) look() {
	b.mu.Lock()
	now := b.now()
	if now.Sub(b.looked).Abs() < lookPeriod {
		b.mu.Unlock()
		return
	}
	b.looked = now
	cluster := b.options.Cluster()
	nodes, err := cluster.List(labels.Everything())
	if err == nil {
		b.census = count(nodes)
	}
	for key, c := range b.gone {
		if now.Sub(c.said) > forgetAfter || !waiting(key, cluster) {
			delete(b.gone, key)
		}
	}
	if b.book.known {
		b.book.bucket.fill(now, b.options.rate(b.census.size))
	}
	released := b.engaged && now.Sub(b.refused) >= calm
	if released {
		b.engaged = false
	}
	status := b.status(now)
	b.mu.Unlock()
	if released {
		b.options.Observer.Engaged(status)
	}
	b.options.Observer.Seen(status)
}

// member reports whether the node is in the cluster.
func member(key nodeKey, cluster corelisters.NodeLister) bool {
	node, err := cluster.Get(key.name)
	return err == nil && keyOf(node) == key
}

// waiting reports whether the lifecycle controller asks about the node: it is
// in the cluster and not Ready.
func waiting(key nodeKey, cluster corelisters.NodeLister) bool {
	node, err := cluster.Get(key.name)
	return err == nil && keyOf(node) == key && !ready(node)
}

func readyCondition(node *corev1.Node) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

func ready(node *corev1.Node) bool {
	c := readyCondition(node)
	return c != nil && c.Status == corev1.ConditionTrue
}

// notReadySince is the Node's creation where nobody has said.
func notReadySince(node *corev1.Node) time.Time {
	if c := readyCondition(node); c != nil && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.Time
	}
	return node.CreationTimestamp.Time
}

// Status is what the brake knows.
type Status struct {
	// Engaged means that Nodes wait for permits, or did until lately.
	Engaged bool
	// Gone counts the Nodes that the provider says are gone, of Size.
	Gone, Size int
	// Permits is how many Nodes may go now. As many as Burst may go at once, and
	// Refill in Period.
	Permits, Burst, Refill float64
	Period                 time.Duration
	// Distrusted is until when there are no permits, since the provider was
	// contradicted; zero when there are.
	Distrusted time.Time
}

// Status returns what the brake knows now.
func (b *Brake) Status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status(b.now())
}

func (b *Brake) status(now time.Time) Status {
	r := b.options.rate(b.census.size)
	s := Status{Engaged: b.engaged, Gone: len(b.gone), Size: b.census.size, Permits: r.most, Burst: r.most, Refill: r.refill, Period: r.period}
	if b.book.known {
		k := b.book.bucket
		k.fill(now, r)
		s.Permits, s.Distrusted = k.Permits, k.Distrusted
	}
	return s
}

// soonf is a Hold until the next question.
func soonf(reason Reason, format string, args ...any) *Hold {
	h := holdf(reason, format, args...)
	h.soon = true
	return h
}

// unanswered is a Hold for a question that the provider has not answered, or not yet.
func unanswered(reason Reason, question string, err error) *Hold {
	h := soonf(reason, "%s has no answer: %v", question, err)
	var later *cloudproviderapi.RetryError
	h.later = errors.As(err, &later)
	return h
}

func holdf(reason Reason, format string, args ...any) *Hold {
	return &Hold{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
