package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// Bounds of the shutdown, together less than a pod's default of 30 s.
const (
	// closeTimeout is for the following writes, and releaseTimeout for the lease.
	closeTimeout    = 6 * time.Second
	releaseTimeout  = 2 * time.Second
	shutdownTimeout = drainTimeout + closeTimeout + releaseTimeout
)

// shutDown ends the manager in order: the loops stop, running ops end,
// decisions are written, and then the lease is released, so that the next
// leader need not wait for its expiry. It returns the result of end.
func (m *controllerManager) shutDown(ctx context.Context) (orderly bool) {
	m.stop() // for every cause of the end
	ended := make(chan bool, 1)
	// In parallel: a second signal ends the process during the shutdown (onSignals).
	go func() { ended <- m.end(ctx) }()
	m.giveBack(ctx)
	return <-ended
}

// giveBack ends all tasks, and then releases the lease.
func (m *controllerManager) giveBack(ctx context.Context) {
	begun := time.Now()
	err := errors.Join(m.drain(ctx), m.close(ctx))
	if m.leases == nil {
		return // it never started
	}
	if err != nil {
		// Invariant R12 (host/SECURITY.md): a lease is not given back while something may write to the cloud.
		klog.ErrorS(err, "The lease is not released: the next leader waits until it expires", "after", time.Since(begun).Round(time.Millisecond))
		return
	}
	releasing, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	if err := m.leases.Release(releasing); err != nil {
		klog.ErrorS(err, "The lease is not released: the next leader waits until it expires")
		return
	}
	klog.InfoS("The manager has ended: no call is under way, and it holds no lease", "after", time.Since(begun).Round(time.Millisecond))
}

// drain stops the loops and waits for the starting parts, and for running ops.
func (m *controllerManager) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	if err := m.loops.Stop(ctx); err != nil {
		return err
	}
	all := m.withEnding()
	failed := make([]error, len(all), len(all)+1)
	var wg sync.WaitGroup
	for i, one := range all {
		wg.Go(func() {
			if err := one.drain(ctx); err != nil {
				failed[i] = fmt.Errorf("provider %s: %w", one.name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(append(failed, m.working.Wait(ctx))...)
}

// withEnding are all providers that may have running tasks.
func (m *controllerManager) withEnding() []*managed {
	if m.providers == nil {
		return nil
	}
	return m.providers.withEnding()
}

// close ends the remaining tasks: rollouts write their decisions and close the
// serving generations.
func (m *controllerManager) close(ctx context.Context) error {
	m.die()
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	all := m.all()
	failed := m.living.Wait(ctx)
	for _, one := range all {
		if err := one.close(ctx); err != nil {
			failed = errors.Join(failed, fmt.Errorf("provider %s: %w", one.name, err))
		}
	}
	for _, one := range all {
		one.events.end()
	}
	for _, end := range m.last {
		end()
	}
	return failed
}
