package manager

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// tasks are goroutines with one owner, who waits for their end. The zero value
// has none. It is safe for concurrent use.
type tasks struct {
	mu      sync.Mutex
	running map[string]int // by name
	ended   chan struct{}  // closed when the next one ends; nil: nobody waits
}

// Go runs a goroutine. The name says what it is to whoever waits in vain.
func (t *tasks) Go(name string, run func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running == nil {
		t.running = map[string]int{}
	}
	t.running[name]++
	go func() {
		defer t.end(name)
		run()
	}()
}

func (t *tasks) end(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running[name]--; t.running[name] == 0 {
		delete(t.running, name)
	}
	if t.ended != nil {
		close(t.ended)
		t.ended = nil
	}
}

// wait returns when none runs, or, when the context ends, with an error that
// names those that do. One that runs may start others meanwhile.
func (t *tasks) wait(ctx context.Context) error {
	for {
		names, ended := t.look()
		if len(names) == 0 {
			return nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return fmt.Errorf("has not ended: %s", strings.Join(names, ", "))
		}
	}
}

// look returns what runs, and what is closed when one of them ends.
func (t *tasks) look() (names []string, ended <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		t.ended = make(chan struct{})
	}
	return slices.Sorted(maps.Keys(t.running)), t.ended
}

// turn is held by one at a time. Unlike a mutex it is waited for no longer than
// a context lasts.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turn) leave() { <-t }
