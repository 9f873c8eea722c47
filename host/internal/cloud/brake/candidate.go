package brake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// nodeKey distinguishes a Node from a later one of the same name.
type nodeKey struct{ name, uid string }

func keyOf(node *corev1.Node) nodeKey { return nodeKey{node.Name, string(node.UID)} }

// candidate is a Node that is gone for the provider. Brake.mu guards it.
type candidate struct {
	key nodeKey
	// first and said are when the provider first and last said so, since is the start of the
	// grace period: a sign of life restarts it.
	first, said, since time.Time
	grace              time.Duration
	// missing is since when the Node is not Ready.
	missing time.Time
	// status and renewed are the last heartbeats seen, in the Node's status and in its Lease, by
	// the kubelet's clock; based means that the Lease was read.
	status, renewed time.Time
	based           bool
	lived           time.Time // last sign of life, by this clock
	accused         bool      // the provider was contradicted by it
	counts          bool      // it needs a permit and has none
	granted         bool      // it got its permit, and its deletion failed
	// turn is since when only questions delay its deletion.
	turn time.Time
	// expected is when it should get its permit, as reported.
	expected time.Time
	told     map[Reason]bool
	// explained is the expected end last reported for each reason.
	explained map[Reason]time.Time
	// later is since when the question laterTo is put off.
	later   time.Time
	laterTo Reason
	next    time.Time // time of the next question
	hold    Hold      // why it stays, by the last decision
}

type candidates map[nodeKey]*candidate

const (
	// forgetAfter is how long the provider may be silent before its statement is forgotten.
	forgetAfter = 15 * time.Minute
	// rankAfter is how long a Node without an answer keeps its place.
	rankAfter = 5 * time.Minute
	// turnTime is how long a Node with unanswered questions may hold up others.
	turnTime = 5 * time.Minute
	// explainAfter is when a waiting Node's reason is reported.
	explainAfter = time.Minute
	// lieAfter is how long a kubelet may live on after the provider declares its machine gone.
	// Clouds forget a machine when its deletion is ordered; the shutdown takes a few minutes at
	// most.
	lieAfter = 5 * time.Minute
	// lookPeriod bounds the work of scanning all candidates and Nodes.
	lookPeriod = time.Second
	// calm is how long no Node must be held before the brake disengages.
	calm = 5 * time.Minute
)

// said records that the provider repeats that the Node is gone.
func (b *Brake) said(node *corev1.Node, own terms) *candidate {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, key := b.now(), keyOf(node)
	c, ok := b.gone[key]
	if !ok || now.Sub(c.said) > forgetAfter {
		c = &candidate{key: key, first: now, since: now, status: heartbeat(node), told: map[Reason]bool{}, explained: map[Reason]time.Time{}}
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

// lives restarts the grace period.
func (c *candidate) lives(now time.Time) {
	c.since, c.lived, c.granted, c.turn = now, now, false, time.Time{}
}

// again restarts the grace period after a contradicting answer.
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

// forget drops a Node that exists.
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
	over, waiting, alive := c.over(), now.Sub(c.first), !c.lived.IsZero()
	lie := !c.accused && known(node) && c.lived.Sub(c.first) >= lieAfter
	c.accused = c.accused || lie
	b.mu.Unlock()
	if lie {
		b.contradict(ctx, node, ByKubelet)
	}
	switch {
	case !over.After(now):
		return nil
	case waiting < explainAfter:
	case !known(node):
		return holdf(ReasonNotYetKnown, "the provider has never known it, so it is not called gone before its kubelet was silent for %v. Is its machine missing in the provider's inventory?", c.grace)
	case alive:
		return holdf(ReasonAlive, "its kubelet has given a sign of life since then")
	}
	return inGrace(over)
}

func inGrace(over time.Time) *Hold {
	hold := holdf(ReasonGrace, "its grace period is not over before %s", over.UTC().Format(time.RFC3339))
	hold.Until = over
	return hold
}

// turn holds a Node while others come first: permits go to the Nodes that have not been
// Ready for the longest time.
func (b *Brake) turn(ctx context.Context, _ *corev1.Node, c *candidate) *Hold {
	if err := b.opened(ctx); err != nil {
		return holdf(ReasonNoRecord, "the record of the deletion brake cannot be read: %v", err)
	}
	b.mu.Lock()
	now, r := b.now(), b.options.rate(b.census.size)
	b.book.bucket.fill(now, r)
	if permits := b.book.bucket.Permits; permits >= 1 && float64(b.gone.ahead(c, now))+1 <= permits {
		defer b.mu.Unlock()
		return c.takes(now)
	}
	c.turn, b.refused = time.Time{}, now
	changed := !b.engaged
	b.engaged = true
	status, p, all := b.status(now), b.place(c, now), len(b.line.places)
	b.mu.Unlock()
	if changed {
		b.options.Observer.Engaged(status)
	}
	hold := holdf(ReasonNoPermit, "the provider says so of %d of %d Nodes; %.0f may go at once and %.0f in %v, those first that have not been Ready for the longest time. Of the %d that wait it is number %d, and is expected to go at %s",
		status.Gone, status.Size, r.most, r.refill, r.period, all, p.number, p.expected.UTC().Format(time.RFC3339))
	hold.Until = p.expected
	return hold
}

// takes begins the turn, or ends one that took too long.
func (c *candidate) takes(now time.Time) *Hold {
	// Invariant N8 (host/SECURITY.md): a Node with failing questions does not block the others for
	// ever.
	switch {
	case c.turn.IsZero():
		c.turn = now
	case now.Sub(c.turn) > turnTime:
		c.since, c.turn = now, time.Time{}
		return inGrace(c.over()) // others come first
	}
	return nil
}

// ahead counts the candidates that may go before c.
func (all candidates) ahead(c *candidate, now time.Time) (n int) {
	for _, other := range all {
		if other != c && other.due(now) && other.compare(c) < 0 {
			n++
		}
	}
	return n
}

// due reports whether only a permit is missing.
func (c *candidate) due(now time.Time) bool {
	return c.needs(now) && !c.over().After(now)
}

// compare is negative if c goes before the other.
func (c *candidate) compare(other *candidate) int {
	return cmp.Or(c.missing.Compare(other.missing), cmp.Compare(c.key.name, other.key.name))
}

// look scans the candidates, once per lookPeriod, for Nodes that left the cluster by other
// means or are Ready again: nobody asks about these.
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

// waiting reports whether the lifecycle controller asks about the Node: it is in the cluster
// and not Ready.
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

// notReadySince falls back to the Node's creation.
func notReadySince(node *corev1.Node) time.Time {
	if c := readyCondition(node); c != nil && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.Time
	}
	return node.CreationTimestamp.Time
}

// Status is the state of the brake.
type Status struct {
	// Engaged means that Nodes wait for permits, or did until recently.
	Engaged bool
	// Gone counts the Nodes that are gone for the provider, of Size.
	Gone, Size int
	// Permits is how many Nodes may go now, Burst the most at once, and Refill the permits added
	// in Period.
	Permits, Burst, Refill float64
	Period                 time.Duration
	// Distrusted is the end of the period without permits after a contradiction, or zero.
	Distrusted time.Time
}

// Status returns the current state.
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

// unanswered is a Hold for a question that the provider has not answered.
func unanswered(reason Reason, question string, err error) *Hold {
	h := soonf(reason, "%s has no answer: %v", question, err)
	var later *cloudproviderapi.RetryError
	h.later = errors.As(err, &later)
	return h
}

func holdf(reason Reason, format string, args ...any) *Hold {
	return &Hold{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
