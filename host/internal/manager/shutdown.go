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
// given back, so that the next leader need not wait until it runs out. It returns
// what end does.
func (m *manager) shutDown(ctx context.Context) (orderly bool) {
	m.cease() // whatever it is that ends the manager
	ended := make(chan bool, 1)
	// At once: the process ends with it when it is signalled twice (onSignals).
	go func() { ended <- m.end(ctx) }()
	m.giveBack(ctx)
	return <-ended
}

// giveBack ends what runs, and then gives back the lease.
func (m *manager) giveBack(ctx context.Context) {
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
	releasing, cancel := context.WithTimeout(ctx, releaseTimeout)
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

// withEnding are all providers of which something may run.
func (m *manager) withEnding() []*managed {
	if m.providers == nil {
		return nil
	}
	return m.providers.withEnding()
}

func (m *managed) drain(ctx context.Context) error {
	err := m.invoker.Drain(ctx)
	if err != nil {
		_ = m.invoker.Shutdown(ctx) // the process ends all the same: nobody waits for them any more
	}
	return errors.Join(err, m.working.Wait(ctx))
}

// close ends the remaining tasks: rollouts write their decisions and close the
// serving generations.
func (m *manager) close(ctx context.Context) error {
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

// close waits for the end of the rollout and of what it holds.
func (m *managed) close(ctx context.Context) error {
	if err := m.living.Wait(ctx); err != nil {
		return err
	}
	return m.failure
}

// end ends the provider, and what it has begun within a time; then nothing new
// is loaded. The error names what goes on.
func (m *managed) end(ctx context.Context) error {
	m.stop()
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	err := m.drain(ctx)
	m.die()
	m.loader.close()
	return err
}
