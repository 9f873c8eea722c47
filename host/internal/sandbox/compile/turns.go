package compile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// turns let one child run at a time. A turn goes to the owner who had none for
// the longest time, and within an owner to who came first. Whoever keeps
// others waiting for longer than its slice has to yield, and to begin anew.
type turns struct {
	mu      sync.Mutex
	running *turn
	waiting []*turn
	count   uint64
	last    map[string]uint64 // count at the last turn of an owner
}

// turn is one child's.
type turn struct {
	owner string
	begin chan struct{}      // closed when it has come
	over  bool               // its slice is
	yield context.CancelFunc // has it end
}

// errYield is why a child is ended that keeps others waiting.
var errYield = errors.New("others are waiting")

// take waits for a turn. The context that it returns ends with errYield as its
// cause when the slice is over and another owner waits; leave ends the turn. The
// error is the context's.
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

// leave gives up a turn, also one that has not come.
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

// next lets the next one begin, if nobody runs.
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

// press has who runs yield, if its slice is over and another owner waits.
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
