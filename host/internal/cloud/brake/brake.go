// Package brake stands between a provider's answer and the controller that deletes Nodes.
// "The instance does not exist" passes only under these conditions: the provider keeps
// saying so while the Node's kubelet is silent; a fresh instance of the provider says the
// same, and knows another Node that exists; and there is a permit. For a Node that does not
// pass, the answer is that its instance exists, so nothing happens to it.
package brake

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
)

// LiftedUntilAnnotation lifts the brake: its value is the time, in RFC 3339, until which
// every Node passes whose absence is confirmed and whose kubelet is silent.
const LiftedUntilAnnotation = "wasm-ccm.dev/deletion-brake-lifted-until"

// Instances is the provider behind the brake.
type Instances interface {
	cloudprovider.InstancesV2
	// InstanceExistsFresh asks a fresh instance of the provider.
	InstanceExistsFresh(ctx context.Context, node *corev1.Node) (bool, error)
}

// Ledger keeps a small text (below 1 KiB) across restarts and changes of the leader.
type Ledger interface {
	// Change reads the text, "" when there is none, and writes the result of change if it
	// differs and no other writer was faster; else change is called again. The error of change
	// is returned as it is. Without an error the text is durable.
	Change(ctx context.Context, change func(text string) (string, error)) error
}

// Options of a Brake.
type Options struct {
	Limits
	// Cluster lists the provider's Nodes. A lister that is empty or has not synced counts as no
	// Nodes.
	Cluster func() corelisters.NodeLister
	// Heartbeats returns when each kubelet last renewed its Lease, by the name of the Node, by
	// the kubelet's clock. It is called once a second at most. nil: only the Ready condition is
	// a sign of life.
	Heartbeats func(ctx context.Context) (map[string]time.Time, error)
	// Ledger may be nil: then a restart begins with a full bucket.
	Ledger Ledger
	// Lifted returns until when an administrator has lifted the brake, or the zero time. It is
	// called once in ten seconds at most. May be nil.
	Lifted func(ctx context.Context) (time.Time, error)
	// Observer may be nil.
	Observer Observer
	Clock    clock.PassiveClock
}

// Brake is cloudprovider.InstancesV2. It is safe for concurrent use.
type Brake struct {
	Instances
	options Options
	beats   heartbeats
	lift    lift

	mu      sync.Mutex
	gone    candidates
	line    line
	book    book
	juries  map[string]*jury
	engaged bool
	// refused is when a Node was last held for want of a permit, looked when the candidates were
	// last scanned.
	refused, looked time.Time
	census          census // time of the census
	failing         map[string]bool
}

// New returns a brake before the instances. It starts nothing.
func New(instances Instances, options Options) *Brake {
	if options.Observer == nil {
		options.Observer = nobody{}
	}
	if options.Ledger == nil {
		options.Ledger = nowhere{}
	}
	return &Brake{
		Instances: instances, options: options, gone: candidates{}, juries: map[string]*jury{}, failing: map[string]bool{},
		beats: heartbeats{read: options.Heartbeats}, lift: lift{read: options.Lifted},
	}
}

// InstanceExists returns false only for a Node that may go. For a Node that is held the
// answer is true: an error would be a line in upstream's log every five seconds.
func (b *Brake) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	b.look()
	if b.resting(node) {
		return true, nil
	}
	exists, err := b.Instances.InstanceExists(ctx, node)
	switch {
	case err != nil:
		return false, err
	case exists:
		b.forget(node)
		return true, nil
	}
	hold := b.mayGo(ctx, node)
	if hold == nil {
		return false, nil
	}
	b.tell(node, hold)
	return true, nil
}

// InstanceShutdown returns false for a Node that is held: upstream asks next about each
// existing Node, and the provider does not know this one.
func (b *Brake) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	b.mu.Lock()
	_, held := b.gone[keyOf(node)]
	b.mu.Unlock()
	if held {
		return false, nil
	}
	return b.Instances.InstanceShutdown(ctx, node)
}

// InstanceMetadata is asked about each Node every few minutes, also when all are Ready: a
// chance for the brake to disengage.
func (b *Brake) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	b.look()
	return b.Instances.InstanceMetadata(ctx, node)
}

// mayGo decides on a Node that is gone for the provider: nil lets it go.
func (b *Brake) mayGo(ctx context.Context, node *corev1.Node) *Hold {
	if !member(keyOf(node), b.options.Cluster()) { // also when the lister has not synced
		return holdf(ReasonNotInCluster, "this manager does not know it (yet) as a Node of the cluster")
	}
	own, err := ownTerms(node, b.limits().Settle)
	c := b.said(node, own)
	switch {
	case err != nil:
		return holdf(ReasonBadAnnotation, "%v", err)
	case own.never:
		return holdf(ReasonNever, "its annotation %s says %s", NodeDeletionAnnotation, Never)
	}
	// Invariant N4 (host/SECURITY.md): no step is skipped for a Node without a mark for deletion.
	steps := []func(context.Context, *corev1.Node, *candidate) *Hold{
		b.waited, b.quorum, b.turn, b.silent, b.witnessed, b.confirmed, b.grant,
	}
	if own.unbraked || marked(node) || b.granted(c) || b.lifted(ctx) {
		steps = []func(context.Context, *corev1.Node, *candidate) *Hold{b.waited, b.silent, b.confirmed}
	}
	for _, step := range steps {
		if hold := step(ctx, node, c); hold != nil {
			return hold
		}
	}
	b.options.Observer.LetGo(node)
	return nil
}

// confirmed asks a fresh instance.
func (b *Brake) confirmed(ctx context.Context, node *corev1.Node, c *candidate) *Hold {
	// Invariant N2 (host/SECURITY.md): a second instance must explicitly say the same.
	exists, err := b.InstanceExistsFresh(ctx, node)
	if err != nil {
		return unanswered(ReasonUnconfirmed, "a second question, asked of a fresh instance of the provider,", err)
	}
	if !exists {
		return nil
	}
	b.again(c)
	b.contradict(ctx, node, ByInstance)
	return holdf(ReasonUnconfirmed, "a fresh instance of the provider says that the machine exists")
}

// askPeriod is how often the provider is asked about a waiting Node: upstream would query
// the cloud's API every five seconds, for hours.
const askPeriod = 30 * time.Second

// resting reports whether the next question about a held Node is not yet due.
func (b *Brake) resting(node *corev1.Node) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.gone[keyOf(node)]
	return ok && b.now().Before(c.next)
}

// rests sets the time of the next question about the Node.
func (c *candidate) rests(h *Hold, now time.Time) {
	c.next = now.Add(askPeriod)
	for _, at := range [...]time.Time{c.over(), h.Until} {
		if at.After(now) && at.Before(c.next) {
			c.next = at
		}
	}
	if h.soon {
		c.next = now
	}
}

// waits reports whether the Node is held only by an answer that was put off recently.
func (c *candidate) waits(h *Hold, now time.Time) bool {
	if !h.later {
		c.laterTo = ""
		return false
	}
	if c.laterTo != h.Reason {
		c.later, c.laterTo = now, h.Reason
	}
	return now.Sub(c.later) < report.SlowAfter
}

// tell reports why a Node stays, once per reason, and to people again when the expected end
// has changed.
func (b *Brake) tell(node *corev1.Node, h *Hold) {
	b.mu.Lock()
	c, ok := b.gone[keyOf(node)]
	if !ok {
		b.mu.Unlock()
		return
	}
	c.rests(h, b.now())
	c.hold = *h
	quiet := c.waits(h, b.now()) || h.Reason == ReasonGrace
	told := c.told[h.Reason]
	until, explained := c.explained[h.Reason]
	c.told[h.Reason] = told || !quiet
	b.mu.Unlock()
	if quiet {
		return
	}
	if !told {
		b.options.Observer.Held(node, *h)
	}
	if explained && until.Equal(h.Until) || !b.options.Observer.Explain(node, *h) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c.explained[h.Reason] = h.Until
}

// failed reports the first of a row of failures, and the recovery.
func (b *Brake) failed(what string, err error) {
	b.mu.Lock()
	changed := b.failing[what] != (err != nil)
	b.failing[what] = err != nil
	b.mu.Unlock()
	if changed {
		b.options.Observer.Failed(what, err)
	}
}

func (b *Brake) now() time.Time { return b.options.Clock.Now() }
