// Package tasks groups goroutines, so that their starter can wait for their end.
package tasks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/klog/v2"
)

// Group is a set of goroutines with one owner, who waits for their end. The
// zero value is empty. It is safe for concurrent use.
type Group struct {
	mu      sync.Mutex
	running map[string]int // by name
	ended   chan struct{}  // closed when the next one ends; nil: no Wait
	failure error          // of the goroutines of Run
}

// Go runs a goroutine. The name identifies it in the error of Wait.
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

// Run is Go for a task that may end with an error. The error is logged at once,
// since nobody may wait for a long time, and kept for Failure.
func (g *Group) Run(ctx context.Context, name string, run func(context.Context) error) {
	g.Go(name, func() {
		err := run(ctx)
		if err == nil {
			return
		}
		klog.FromContext(ctx).Error(err, "A task has ended with an error", "task", name)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.failure = errors.Join(g.failure, err)
	})
}

// Failure returns the errors of the goroutines of Run.
func (g *Group) Failure() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failure
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
// names the running ones. A running one may start others meanwhile.
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

// Running returns the names of the running goroutines.
func (g *Group) Running() []string {
	names, _ := g.look()
	return names
}

// look returns the names of the running goroutines, and a channel that closes
// when one of them ends.
func (g *Group) look() (names []string, ended <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended == nil {
		g.ended = make(chan struct{})
	}
	return slices.Sorted(maps.Keys(g.running)), g.ended
}

// Turn is a lock. Unlike with a mutex, waiting for it ends with a context.
type Turn chan struct{}

// NewTurn returns a free turn.
func NewTurn() Turn { return make(Turn, 1) }

// Take returns with the turn, or with the context's cause.
func (t Turn) Take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Leave frees the turn.
func (t Turn) Leave() { <-t }
