package brake

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Held is a Node that is gone for the provider, and stays.
type Held struct {
	Hold
	// Since and Said are when the provider first and last said so.
	Since, Said time.Time
}

// Look returns why a Node that is gone for the provider stays, by the last decision; nil for
// other Nodes.
func (b *Brake) Look(node *corev1.Node) *Held {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.gone[keyOf(node)]
	if !ok {
		return nil
	}
	return &Held{Hold: c.hold, Since: c.first, Said: c.said}
}
