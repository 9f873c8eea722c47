package manager

import (
	"context"
	"sync"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
)

// changes tells that a provider may answer otherwise now: another generation
// serves, what the manager knew of the one before is forgotten, or the
// administrator allows something else. It is safe for concurrent use.
type changes struct {
	mu   sync.Mutex
	next chan struct{}
}

func newChanges() *changes { return &changes{next: make(chan struct{})} }

// Changed returns a channel that is closed at the next change.
func (c *changes) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next
}

func (c *changes) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.next)
	c.next = make(chan struct{})
}

// follow tells of each change that another one tells of, until the context ends.
func (c *changes) follow(ctx context.Context, changed func() <-chan struct{}) {
	for {
		next := changed()
		c.tell() // of what came before it
		select {
		case <-ctx.Done():
			return
		case <-next:
		}
	}
}

// configures compares what serves with what served. The control loops look at
// everything when they begin, so the first is no change.
func (r *providerReporter) configures(serving *rollout.Version) {
	if serving == nil {
		return
	}
	now := r.configured()
	if r.config != "" && now != r.config {
		r.reconfigured()
	}
	r.config = now
}
