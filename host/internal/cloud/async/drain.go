package async

import (
	"context"
	"fmt"
)

// Drain refuses new ops, and returns when all running ops have ended by themselves, or with
// the context's error. Queued ops do not begin.
func (i *Invoker) Drain(ctx context.Context) error {
	return wait(ctx, i.refuse())
}

// refuse refuses new ops and returns the running ones.
func (i *Invoker) refuse() (running []*task) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.ended {
		close(i.refuses)
	}
	i.ended = true
	for t := range i.tasks {
		running = append(running, t)
	}
	return running
}

// wait returns when all tasks have ended, or with an error that names a running one.
func wait(ctx context.Context, running []*task) error {
	for _, t := range running {
		select {
		case <-t.finished:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the end of %s: %w", t.about(), ctx.Err())
		}
	}
	return nil
}
