package brake

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// heartbeats are the renewals of all Leases, as last read.
type heartbeats struct {
	read func(context.Context) (map[string]time.Time, error)

	mu     sync.Mutex
	values map[string]time.Time
	at     time.Time // start of the reading
	tried  time.Time
	err    error
}

const (
	// heartbeatsAge is the greatest age of a reading that is the base of comparisons.
	heartbeatsAge = 10 * time.Second
	// heartbeatsPause is the time between two readings.
	heartbeatsPause = time.Second
	// leastSilence is the shortest silence that counts for a kubelet with a
	// Lease, independent of Settle: a kubelet renews its Lease every ten
	// seconds.
	leastSilence = 20 * time.Second
	// requestTimeout bounds one request to the API server.
	requestTimeout = 10 * time.Second
)

// errTooSoon is the error of a reading that must wait.
var errTooSoon = errors.New("the Leases were read a moment ago")

// of returns the last renewal for a Node, zero if there is none, from a reading not older
// than notBefore.
func (h *heartbeats) of(ctx context.Context, node string, notBefore, now time.Time) (time.Time, error) {
	if h.read == nil {
		return time.Time{}, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock() // also during the reading: the next caller needs the same
	if h.err == nil && !h.at.IsZero() && !h.at.Before(notBefore) {
		return h.values[node], nil
	}
	if !h.tried.IsZero() && now.Sub(h.tried).Abs() < heartbeatsPause {
		if h.err != nil {
			return time.Time{}, h.err
		}
		return time.Time{}, errTooSoon
	}
	h.tried = now
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	values, err := h.read(ctx)
	if h.err = err; err != nil {
		return time.Time{}, err
	}
	h.values, h.at = values, now
	return values[node], nil
}

// heartbeat is the kubelet's last heartbeat in the Node's status, or zero. Other writers of
// the condition do not change it.
func heartbeat(node *corev1.Node) time.Time {
	if c := readyCondition(node); c != nil {
		return c.LastHeartbeatTime.Time
	}
	return time.Time{}
}

// base records the renewal for later comparisons.
func (b *Brake) base(ctx context.Context, c *candidate) *Hold {
	now := b.now()
	beat, hold := b.lease(ctx, c.key.name, now.Add(-heartbeatsAge))
	if hold != nil {
		return hold
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c.renewed, c.since, c.based = beat, now, true
	c.grace = c.patient(c.grace)
	return nil
}

// patient extends the grace period so that a living kubelet is heard in it.
func (c *candidate) patient(grace time.Duration) time.Duration {
	if c.renewed.IsZero() {
		return grace
	}
	return max(grace, leastSilence)
}

// silent holds a Node whose kubelet has given a sign of life since the grace period began.
// Only times of the same clock are compared.
func (b *Brake) silent(ctx context.Context, node *corev1.Node, c *candidate) *Hold {
	b.mu.Lock()
	notBefore := c.over()
	b.mu.Unlock()
	if recent := b.now().Add(-heartbeatsPause); recent.After(notBefore) {
		notBefore = recent // the Node may have waited for hours since
	}
	beat, hold := b.lease(ctx, c.key.name, notBefore)
	if hold != nil {
		return hold
	}
	b.mu.Lock()
	// Invariant N6 (host/SECURITY.md): a living kubelet keeps its Node.
	lives := !beat.IsZero() && !beat.Equal(c.renewed)
	if lives {
		c.renewed = beat
		c.lives(b.now())
	}
	over := c.over()
	b.mu.Unlock()
	if !lives {
		return nil
	}
	if hold := b.waited(ctx, node, c); hold != nil {
		return hold
	}
	return inGrace(over)
}

// lease returns the renewal of a Node's Lease from a reading not older than notBefore.
func (b *Brake) lease(ctx context.Context, node string, notBefore time.Time) (time.Time, *Hold) {
	beat, err := b.beats.of(ctx, node, notBefore, b.now())
	if errors.Is(err, errTooSoon) {
		return beat, soonf(ReasonGrace, "%v", err)
	}
	b.failed(FailedHeartbeats, err)
	if err != nil {
		return beat, holdf(ReasonNoHeartbeats, "whether its kubelet is alive cannot be read: %v", err)
	}
	return beat, nil
}
