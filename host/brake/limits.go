package brake

import "time"

// Limits are the part of the Options that may change while the brake works.
type Limits struct {
	Percent, Nodes int
	Period, Settle time.Duration
}

// SetLimits changes the limits. What the brake has seen stays.
func (b *Brake) SetLimits(l Limits) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.options.Percent, b.options.Nodes, b.options.Period, b.options.Settle = l.Percent, l.Nodes, l.Period, l.Settle
}
