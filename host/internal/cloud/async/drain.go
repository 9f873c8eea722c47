package async

import (
	"context"
	"fmt"
)

// Drain refuses new ops, and returns when the last one has ended by itself, or
// with the context's error. Ops that wait for their turn do not begin.
func (i *Invoker) Drain(ctx context.Context) error {
	return wait(ctx, i.refuse())
}

// refuse lets no op begin any more, and returns those that run.
func (i *Invoker) refuse() (running []*task) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
	for t := range i.tasks {
		running = append(running, t)
	}
	return running
}

// wait returns when all tasks have ended, or with an error that names one.
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
