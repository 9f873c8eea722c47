package credential

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// minRenewal is the shortest use of a lease, whatever the cloud says: a provider must not
	// flood the token endpoint.
	minRenewal = 10 * time.Second
	// failureRest is the pause after a failure.
	failureRest = 5 * time.Second
	// maxLease is the longest use of a lease.
	maxLease = 24 * time.Hour
	// maxMargin is the largest time between the renewal of a lease and its end.
	maxMargin = time.Minute
)

// lease is a value with a limited lifetime.
type lease[T any] struct {
	redacted
	value T
	// version of its Secret.
	version string
	// until is the time of its renewal; zero: it serves once.
	until time.Time
}

// renewal holds one lease; one caller at a time renews it.
type renewal[T any] struct {
	redacted
	clock clock.PassiveClock
	turn  chan struct{}

	mu       sync.Mutex
	current  lease[T]
	obtained time.Time
	failed   failure
}

// failure is a failed attempt that is not repeated at once: repeated wrong passwords lock an
// account.
type failure struct {
	err     error
	version string
	at      time.Time
}

func newRenewal[T any](clock clock.PassiveClock) *renewal[T] {
	return &renewal[T]{clock: clock, turn: make(chan struct{}, 1)}
}

// get returns the current value, or obtains one. A lasting error of obtain is returned to
// all callers for failureRest.
func (r *renewal[T]) get(ctx context.Context, version string, obtain func(context.Context) (l lease[T], lasting bool, err error)) (T, error) {
	if value, known, err := r.look(version); known {
		return value, err
	}
	var none T
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return none, fmt.Errorf("waiting for another request's renewal: %w", context.Cause(ctx))
	}
	defer func() { <-r.turn }()
	if value, known, err := r.look(version); known {
		return value, err
	}
	l, lasting, err := obtain(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if lasting && ctx.Err() == nil {
			r.failed = failure{err, version, r.clock.Now()}
		}
		return none, err
	}
	r.current, r.obtained, r.failed = l, r.clock.Now(), failure{}
	return l.value, nil
}

// look returns the known state without a request.
func (r *renewal[T]) look(version string) (value T, known bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current.version == version && r.clock.Now().Before(r.current.until) {
		return r.current.value, true, nil
	}
	if f := r.failed; f.err != nil && f.version == version && r.clock.Since(f.at) < failureRest {
		return value, true, f.err
	}
	return value, false, nil
}

// drop has the next get renew the lease. A fresh one stays: the rejected request may have
// used its predecessor. It reports whether the next request will differ, and whether a lease
// was dropped.
func (r *renewal[T]) drop() (renewed, dropped bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.obtained.IsZero():
		return false, false
	case r.clock.Since(r.obtained) < minRenewal:
		return !r.current.until.IsZero(), false
	}
	r.current = lease[T]{}
	return true, true
}

// renewAt returns the renewal time of a lease obtained now, some time before end.
func renewAt(now, end time.Time) time.Time {
	end = minTime(end, now.Add(maxLease))
	return end.Add(-min(end.Sub(now)/10, maxMargin))
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
