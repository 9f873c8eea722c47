package brake

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Held is a Node that the provider says is gone, and that stays.
type Held struct {
	Hold
	// Since is when the provider began to say so, Said when it did last.
	Since, Said time.Time
}

// Look returns why a Node stays that the provider says is gone, as it was
// decided last; nil of any other Node.
func (b *Brake) Look(node *corev1.Node) *Held {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.gone[keyOf(node)]
	if !ok {
		return nil
	}
	return &Held{Hold: c.hold, Since: c.first, Said: c.said}
}
