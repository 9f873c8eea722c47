package controllers

import (
	"context"
	"errors"
	"sync"

	"k8s.io/cloud-provider/app"
)

// Stopper ends control loops before the process ends. It is safe for concurrent
// use.
type Stopper struct {
	ctx  context.Context // of all loops
	stop context.CancelFunc

	mu      sync.Mutex // no loop begins while Stop looks
	running sync.WaitGroup
}

// NewStopper returns one that has stopped nothing.
func NewStopper() *Stopper {
	s := &Stopper{}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// ConstructorsFor is the package's, of loops that also end with Stop.
func (s *Stopper) ConstructorsFor(providers func() []Provider) map[string]app.ControllerInitFuncConstructor {
	all := map[string]app.ControllerInitFuncConstructor{}
	for _, l := range loops() {
		all[l.name] = l.constructor(providers, s)
	}
	return all
}

// Stop ends all loops, for good: none begins after it. It returns when none
// calls its provider any more, or when the context ends. What a provider has
// begun in the background goes on.
func (s *Stopper) Stop(ctx context.Context) error {
	s.stop()
	s.mu.Lock()
	s.mu.Unlock() //nolint:staticcheck // whoever had the lock has counted its loop
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.running.Wait()
	}()
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
		return errors.New("a control loop has not stopped")
	}
}

// begin runs a loop in the background until either context ends.
func (s *Stopper) begin(ctx context.Context, run func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	s.running.Go(func() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.ctx, cancel)()
		run(ctx)
	})
}
