// Package brake stands between what a provider says and the controller that
// deletes Nodes on it. "The instance does not exist" passes only when a second
// question, put to a fresh instance of the provider, is answered the same, and
// only for a small share of the cluster in a period. Everything else becomes an
// error, on which nothing is deleted.
//
// It imports Kubernetes' packages and nothing of this project.
package brake

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/clock"
)

// LiftedUntilAnnotation is where an administrator lifts the brake: its value is
// the time, in RFC 3339, until which every confirmed answer passes.
const LiftedUntilAnnotation = "wasm-ccm.dev/deletion-brake-lifted-until"

// Instances is what the brake guards.
type Instances interface {
	cloudprovider.InstancesV2
	// InstanceExistsFresh asks a fresh instance of the provider.
	InstanceExistsFresh(ctx context.Context, node *corev1.Node) (bool, error)
}

// Observer hears what the brake does. Its methods must be safe for concurrent
// use and must not block or call the brake.
type Observer interface {
	// Refused is told of a confirmed answer that did not pass, although the
	// brake is past its settling time.
	Refused(node *corev1.Node, status Status)
	// Contradicted is told of a node that is there when asked a second time.
	Contradicted(node *corev1.Node)
	// Engaged is told when the brake begins and ceases to refuse.
	Engaged(status Status)
}

// Options of a Brake.
type Options struct {
	// Percent of the cluster (0 to 100) and Nodes: as many may be deleted
	// within Period, whichever is more. Zero of both lets nothing pass.
	Percent, Nodes int
	Period         time.Duration
	// Settle is how long the brake only listens after the first answer, so that
	// a manager that has just started knows of all missing nodes before it lets
	// the first one go. It knows nothing of the period before.
	Settle time.Duration
	// Cluster lists the nodes of the cluster. An empty one, also one that has
	// not synced, counts as no nodes.
	Cluster func() corelisters.NodeLister
	// Lifted returns until when an administrator has lifted the brake; the zero
	// time when not. It is called once in ten seconds at most. May be nil.
	Lifted func(ctx context.Context) (time.Time, error)
	// Observer may be nil.
	Observer Observer
	Clock    clock.PassiveClock
}

// DefaultOptions are 10 % or 3 nodes in 10 minutes, after 30 seconds; the rest
// is empty.
func DefaultOptions() Options {
	return Options{Percent: 10, Nodes: 3, Period: 10 * time.Minute, Settle: 30 * time.Second, Clock: clock.RealClock{}}
}

// Status is what the brake knows.
type Status struct {
	// Engaged means that the brake refuses.
	Engaged bool
	// Gone counts the nodes that are gone: those that were let go within the
	// period, and those that are held back.
	Gone int
	// Allowed is how many may be gone, of Size nodes in the cluster.
	Allowed, Size int
}

// Brake is cloudprovider.InstancesV2. It is safe for concurrent use.
type Brake struct {
	Instances
	options Options

	mu      sync.Mutex
	first   time.Time // of the answers
	gone    ledger
	engaged bool
	lifted  time.Time
	liftErr error // of the last time that Lifted was asked
	// liftedAt is when Lifted was asked last.
	liftedAt time.Time
}

// New returns a brake before the instances. It starts nothing.
func New(instances Instances, options Options) *Brake {
	if options.Observer == nil {
		options.Observer = nobody{}
	}
	return &Brake{Instances: instances, options: options, gone: newLedger()}
}

type nobody struct{}

func (nobody) Refused(*corev1.Node, Status) {}
func (nobody) Contradicted(*corev1.Node)    {}
func (nobody) Engaged(Status)               {}

// InstanceExists returns false without an error only when the provider said
// twice in so many words that the instance does not exist, and the share of
// the cluster that is gone allows it.
func (b *Brake) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	exists, err := b.Instances.InstanceExists(ctx, node)
	if err != nil {
		return false, err
	}
	if exists {
		b.there(node)
		return true, nil
	}
	// Invariant N2 (host/SECURITY.md): a second instance has to say so, too, in so many words.
	if exists, err = b.InstanceExistsFresh(ctx, node); err != nil {
		return false, fmt.Errorf("node %s is missing, which could not be confirmed by a second question: %w", node.Name, err)
	}
	if exists {
		b.there(node)
		b.options.Observer.Contradicted(node)
		return false, fmt.Errorf("node %s is missing, but a second question says that it is there; nothing is done", node.Name)
	}
	return false, b.missing(node, b.liftedUntil(ctx))
}

// Status returns what the brake knows now.
func (b *Brake) Status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status(b.options.Clock.Now())
}

// there notes that a node exists.
func (b *Brake) there(node *corev1.Node) {
	b.mu.Lock()
	now := b.options.Clock.Now()
	b.begin(now)
	b.gone.remove(keyOf(node))
	var status Status
	changed := false
	if b.engaged {
		status, changed = b.release(now)
	}
	b.mu.Unlock()
	if changed {
		b.options.Observer.Engaged(status)
	}
}

// missing decides on a node whose absence is confirmed: nil lets it go.
func (b *Brake) missing(node *corev1.Node, lifted time.Time) error {
	b.mu.Lock()
	now, key := b.options.Clock.Now(), keyOf(node)
	b.begin(now)
	if !member(key, b.options.Cluster()) { // a lister that has not synced knows no share, too
		b.mu.Unlock()
		return fmt.Errorf("node %s is missing, and this manager does not know it (yet) as a node of the cluster", node.Name)
	}
	b.gone.hold(key)
	status, changed := b.release(now)
	settled := now.Sub(b.first) >= b.options.Settle
	// Invariant N3 (host/SECURITY.md): no Node is let go that is one too many, those held back
	// included.
	pass := now.Before(lifted) || settled && status.Gone <= status.Allowed
	switch {
	case pass:
		b.gone.letGo(key, now)
	case settled && !b.engaged:
		b.engaged, changed = true, true
	}
	status.Engaged = b.engaged
	settle, period, liftErr := b.options.Settle, b.options.Period, b.liftErr
	b.mu.Unlock()
	if changed {
		b.options.Observer.Engaged(status)
	}
	switch {
	case pass:
		return nil
	case !settled:
		return fmt.Errorf("node %s is missing; the manager has just started and lets nothing be deleted for %v", node.Name, settle)
	}
	b.options.Observer.Refused(node, status)
	err := refusal(node, status, period)
	if liftErr != nil {
		return fmt.Errorf("%w. Whether it is lifted could not be read: %w", err, liftErr)
	}
	return err
}

func refusal(node *corev1.Node, s Status, period time.Duration) error {
	return fmt.Errorf("deletion brake: the provider says that node %s and others do not exist, %d of %d; at most %d may go in %v. "+
		"If they are really gone, set the annotation %s on the namespace of --provider-store-namespace to a time in the near future (RFC 3339); otherwise mend the provider or its credentials",
		node.Name, s.Gone, s.Size, s.Allowed, period, LiftedUntilAnnotation)
}

func (b *Brake) begin(now time.Time) {
	if b.first.IsZero() {
		b.first = now
	}
}

// release disengages the brake when the share has fallen.
func (b *Brake) release(now time.Time) (s Status, changed bool) {
	s = b.status(now)
	if b.engaged && s.Gone <= s.Allowed {
		b.engaged, changed = false, true
		s.Engaged = false
	}
	return s, changed
}

const liftedPeriod = 10 * time.Second

// liftedUntil asks whether the brake is lifted, now and then. An error is no
// permission; it goes into the text of the refusal.
func (b *Brake) liftedUntil(ctx context.Context) time.Time {
	if b.options.Lifted == nil {
		return time.Time{}
	}
	b.mu.Lock()
	now := b.options.Clock.Now()
	if !b.liftedAt.IsZero() && now.Sub(b.liftedAt) < liftedPeriod {
		defer b.mu.Unlock()
		return b.lifted
	}
	b.liftedAt = now
	b.mu.Unlock()
	until, err := b.options.Lifted(ctx) // may take its time: no lock is held
	if err != nil {
		until = time.Time{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lifted, b.liftErr = until, err
	return until
}
