package manager

import (
	"context"
	"sync"
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
