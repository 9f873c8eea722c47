package manager

import (
	"context"
	"sync"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
)

// changes signals that a provider may answer differently now: another
// generation serves, the manager's knowledge of the previous one was dropped,
// or the administrator's configuration differs. It is safe for concurrent use.
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

// follow repeats the signals of another source, until the context ends.
func (c *changes) follow(ctx context.Context, changed func() <-chan struct{}) {
	for {
		next := changed()
		c.tell() // for earlier changes
		select {
		case <-ctx.Done():
			return
		case <-next:
		}
	}
}

// configures compares the configuration of the serving generation with the previous one's.
// The control loops read everything at their start, so the first one is no change.
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
