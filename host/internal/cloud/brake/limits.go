package brake

import "time"

// Limits are the part of the Options that may change while the brake works.
type Limits struct {
	// Percent of the cluster (0 to 100) or Nodes, whichever is more, refill the bucket in
	// Period. It holds Percent, or Nodes but at most a third of the cluster; at least one
	// permit.
	Percent, Nodes int
	Period         time.Duration
	// Settle is how long the provider must keep saying that a Node is gone, and
	// its kubelet be silent, before it may go.
	Settle time.Duration
}

// SetLimits changes the limits. The brake keeps its observations.
func (b *Brake) SetLimits(l Limits) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.options.Limits = l
}

func (b *Brake) limits() Limits {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.options.Limits
}

// rate is the capacity of a bucket and its refill per period.
type rate struct {
	most, refill float64
	period       time.Duration
}

// rate returns the rate for a cluster of that size.
func (l Limits) rate(size int) rate {
	share := size * l.Percent / 100
	return rate{
		most:   float64(max(1, share, min(l.Nodes, size/3))),
		refill: float64(max(1, share, l.Nodes)),
		period: l.Period,
	}
}
