package egress

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Traffic is the shared state of one provider's requests, across Clients: the rate, the
// running requests, the budget of retries, and the state of each host. It outlives Clients,
// so that a new configuration resets nothing. It is safe for concurrent use.
type Traffic struct {
	limiter *rate.Limiter
	slots   *slots
	hosts   *hosts
	budget  *budget
}

// newTraffic expects options with their defaults.
func newTraffic(o Options) *Traffic {
	return &Traffic{
		limiter: rate.NewLimiter(rate.Limit(o.RequestsPerSecond), o.Burst),
		slots:   &slots{limit: o.MaxConcurrent},
		hosts:   newHosts(o),
		budget:  &budget{share: o.RetryShare, least: o.MinRetries, start: time.Now()},
	}
}

// Traffic is the state that this client shares with its successors.
func (c *Client) Traffic() *Traffic { return c.traffic }

// Enforce applies the rate and the concurrency of this client's options to all that share
// its Traffic. Tokens already taken stay taken.
func (c *Client) Enforce() {
	t, o := c.traffic, c.options
	t.limiter.SetLimit(rate.Limit(o.RequestsPerSecond))
	t.limiter.SetBurst(o.Burst)
	t.slots.set(o.MaxConcurrent)
	t.hosts.set(o)
}

// Forget drops what is known of hosts without a running request, as a restart does: breakers
// and pauses.
func (t *Traffic) Forget() {
	t.hosts.mu.Lock()
	defer t.hosts.mu.Unlock()
	for t.hosts.evict() {
	}
}

// perSecond is the rate in force, for errors.
func (t *Traffic) perSecond() float64 { return float64(t.limiter.Limit()) }

// slots bounds the running requests. Its limit may change; waiting requests are served in
// turn.
type slots struct {
	mu      sync.Mutex
	limit   int
	used    int
	waiting []chan struct{}
}

// take waits for a slot, which leave gives back. The error is the context's.
func (s *slots) take(ctx context.Context) error {
	s.mu.Lock()
	turn := make(chan struct{})
	s.waiting = append(s.waiting, turn)
	s.serve()
	s.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, turn); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		return ctx.Err()
	}
	s.used-- // it came at the same time
	s.serve()
	return ctx.Err()
}

func (s *slots) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	s.serve()
}

func (s *slots) set(limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = limit
	s.serve()
}

// serve starts waiting requests while there is room.
func (s *slots) serve() {
	for s.used < s.limit && len(s.waiting) > 0 {
		close(s.waiting[0])
		s.waiting = s.waiting[1:]
		s.used++
	}
}
