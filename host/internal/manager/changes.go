package manager

import (
	"context"
	"sync"
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
