package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// Bounds of the end, which together are less than the 30 s that a pod is given
// by default.
const (
	// drainTimeout is how long ops that have begun may still take.
	drainTimeout = 20 * time.Second
	// closeTimeout is for what is written after them, and releaseTimeout for the lease.
	closeTimeout    = 6 * time.Second
	releaseTimeout  = 2 * time.Second
	shutdownTimeout = drainTimeout + closeTimeout + releaseTimeout
)

// shutDown ends the manager as a person wants it: the loops stop, ops that have
// begun go on to their end, what is decided is written, and then the lease is
// given back, so that the next leader need not wait until it runs out.
func (m *manager) shutDown(ctx context.Context) {
	m.cease() // whatever it is that ends the manager
	var leaving sync.WaitGroup
	defer leaving.Wait()
	// At once: whoever signals twice must not leave marks.
	leaving.Go(func() { m.end(ctx) })
	begun := time.Now()
	err := errors.Join(m.drain(ctx), m.close(ctx))
	if m.leases == nil {
		return // it never started
	}
	if err != nil {
		// Invariant R12 (host/SECURITY.md): a lease is not given back while something may write to the cloud.
		klog.ErrorS(err, "The lease is not given back: the next leader waits until it runs out", "after", time.Since(begun).Round(time.Millisecond))
		return
	}
	releasing, cancel := context.WithTimeout(ctx, releaseTimeout) // ctx is what leaving reads
	defer cancel()
	if err := m.leases.Release(releasing); err != nil {
		klog.ErrorS(err, "The lease is not given back: the next leader waits until it runs out")
		return
	}
	klog.InfoS("The manager has ended: no call is under way, and it holds no lease", "after", time.Since(begun).Round(time.Millisecond))
}

// drain stops the loops and waits for what begins things, and for the ops that
// have begun.
func (m *manager) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	if err := m.loopStopper.Stop(ctx); err != nil {
		return err
	}
	failed := make([]error, len(m.providers), len(m.providers)+1)
	var wg sync.WaitGroup
	for i, one := range m.providers {
		wg.Go(func() {
			if err := one.drain(ctx); err != nil {
				failed[i] = fmt.Errorf("provider %s: %w", one.name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(append(failed, m.working.Wait(ctx))...)
}

func (m *managed) drain(ctx context.Context) error {
	err := m.invoker.Drain(ctx)
	if err != nil {
		_ = m.invoker.Shutdown(ctx) // the process ends all the same: nobody waits for them any more
	}
	return errors.Join(err, m.working.Wait(ctx))
}

// close ends all that is left: rollouts write what they have decided, and close
// what serves.
func (m *manager) close(ctx context.Context) error {
	m.die()
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	failed := m.living.Wait(ctx)
	for _, one := range m.providers {
		if err := one.close(ctx); err != nil {
			failed = errors.Join(failed, fmt.Errorf("provider %s: %w", one.name, err))
		}
	}
	for _, end := range m.last {
		end()
	}
	return failed
}

// close waits for the end of the rollout and of what it holds.
func (m *managed) close(ctx context.Context) error {
	if err := m.living.Wait(ctx); err != nil {
		return err
	}
	return m.failure
}
