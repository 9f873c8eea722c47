// Package tasks groups goroutines, so that their starter can wait for their end.
package tasks

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Group is goroutines with one owner, who waits for their end. The zero value
// has none. It is safe for concurrent use.
type Group struct {
	mu      sync.Mutex
	running map[string]int // by name
	ended   chan struct{}  // closed when the next one ends; nil: nobody waits
}

// Go runs a goroutine. The name says what it is to whoever waits in vain.
func (g *Group) Go(name string, run func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running == nil {
		g.running = map[string]int{}
	}
	g.running[name]++
	go func() {
		defer g.end(name)
		run()
	}()
}

func (g *Group) end(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running[name]--; g.running[name] == 0 {
		delete(g.running, name)
	}
	if g.ended != nil {
		close(g.ended)
		g.ended = nil
	}
}

// Wait returns when none runs, or, when the context ends, with an error that
// names those that do. One that runs may start others meanwhile.
func (g *Group) Wait(ctx context.Context) error {
	for {
		names, ended := g.look()
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

// Running returns the names of what runs.
func (g *Group) Running() []string {
	names, _ := g.look()
	return names
}

// look returns the names of the running tasks, and a channel that closes when
// one of them ends.
func (g *Group) look() (names []string, ended <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended == nil {
		g.ended = make(chan struct{})
	}
	return slices.Sorted(maps.Keys(g.running)), g.ended
}

// Turn is held by one at a time. Unlike a mutex it is waited for no longer than
// a context lasts.
type Turn chan struct{}

// NewTurn returns one that nobody holds.
func NewTurn() Turn { return make(Turn, 1) }

// Take returns when the turn is the caller's, or with the context's cause.
func (t Turn) Take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Leave lets the next one have it.
func (t Turn) Leave() { <-t }
