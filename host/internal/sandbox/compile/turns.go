package compile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// turns lets one child run at a time. The next turn goes to the owner whose last turn is the
// longest ago, and within an owner to the first in the queue. A child that keeps others
// waiting beyond its slice must yield, and start again.
type turns struct {
	mu      sync.Mutex
	running *turn
	waiting []*turn
	count   uint64
	last    map[string]uint64 // number of the owner's last turn
}

// turn is one child's.
type turn struct {
	owner string
	begin chan struct{}      // closed when the turn begins
	over  bool               // the slice has ended
	yield context.CancelFunc // ends the child
}

// errYield is the cause of a child's end after its slice.
var errYield = errors.New("others are waiting")

// take waits for a turn. The returned context ends with errYield as its cause when the slice
// has ended and another owner waits; leave ends the turn. The error is the context's.
func (t *turns) take(ctx context.Context, owner string, slice time.Duration) (held context.Context, leave func(), err error) {
	held, cancel := context.WithCancelCause(ctx)
	mine := &turn{owner: owner, begin: make(chan struct{}), yield: func() { cancel(errYield) }}
	t.mu.Lock()
	t.waiting = append(t.waiting, mine)
	t.next()
	t.press()
	t.mu.Unlock()
	select {
	case <-mine.begin:
	case <-ctx.Done():
		cancel(nil)
		t.leave(mine)
		return nil, nil, fmt.Errorf("compiling the module was given up before its turn: %w", ctx.Err())
	}
	timer := time.AfterFunc(slice, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		mine.over = true
		t.press()
	})
	return held, func() {
		timer.Stop()
		cancel(nil)
		t.leave(mine)
	}, nil
}

// leave gives up a turn, begun or not.
func (t *turns) leave(mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running == mine {
		t.running = nil
	}
	for i, x := range t.waiting {
		if x == mine {
			t.waiting = append(t.waiting[:i], t.waiting[i+1:]...)
			break
		}
	}
	t.next()
}

// next begins the next turn, if none is running.
func (t *turns) next() {
	if t.running != nil || len(t.waiting) == 0 {
		return
	}
	best := 0
	for i, x := range t.waiting {
		if t.last[x.owner] < t.last[t.waiting[best].owner] {
			best = i
		}
	}
	t.running = t.waiting[best]
	t.waiting = append(t.waiting[:best], t.waiting[best+1:]...)
	if t.last == nil {
		t.last = map[string]uint64{}
	}
	t.count++
	t.last[t.running.owner] = t.count
	close(t.running.begin)
}

// press ends the running child, if its slice has ended and another owner waits.
func (t *turns) press() {
	if t.running == nil || !t.running.over {
		return
	}
	for _, x := range t.waiting {
		if x.owner != t.running.owner {
			t.running.yield()
		}
	}
}
