package listing

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

const (
	// pageWait bounds a caller's wait for the next page, and callWait its whole wait; both count
	// for all callers of a flight together. The first is longer than the time of a page in the
	// foreground of host/internal/cloud/async (2 s), and than its handover at the next question.
	pageWait = 3 * time.Second
	callWait = 10 * time.Second
	// flightTime bounds a flight without callers.
	flightTime = 3 * time.Minute
	// The bounds of the pause after a failed flight; each pause doubles the one before.
	minBackOff = 10 * time.Second
	maxBackOff = 5 * time.Minute
	// The delay between two questions for one page.
	minPoll, maxPoll = 100 * time.Millisecond, time.Minute
)

// flight is a listing being fetched.
type flight struct {
	number  uint64
	started time.Time
	// trial is a flight after a failed one: no caller waits for it.
	trial  bool
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended and its result is stored
	// page is the time of the last page; guarded by Listing.mu.
	page time.Time
}

// newest returns a listing not older than age, fetched if need be. Without one, slow reports
// that a flight takes longer than callers wait; else no listing can be had.
func (l *Listing) newest(ctx context.Context, age time.Duration) (s *snapshot, slow bool) {
	if !l.CanList() {
		return nil, false
	}
	s, f := l.join(ctx, age)
	if f == nil {
		return s, false
	}
	l.wait(ctx, f)
	l.mu.Lock()
	defer l.mu.Unlock()
	s = l.last.within(age)
	return s, s == nil && l.flight != nil && !l.flight.trial
}

// join returns a listing that is young enough, or the flight that fetches one, or neither
// after a failure.
func (l *Listing) join(ctx context.Context, age time.Duration) (*snapshot, *flight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.last.within(age); s != nil {
		return s, nil
	}
	if l.flight == nil && !l.closed && !time.Now().Before(l.until) {
		l.take(ctx)
	}
	return nil, l.flight
}

// take begins a flight. The flight keeps the context's values, not its end.
func (l *Listing) take(ctx context.Context) {
	l.number++
	now := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flightTime)
	f := &flight{number: l.number, started: now, page: now, trial: l.failures > 0, cancel: cancel, done: make(chan struct{})}
	l.flight = f
	l.flights.Go(func() {
		defer close(f.done)
		defer cancel()
		s, err := l.contained(ctx, f)
		l.land(f, s, err)
	})
}

// wait returns when the flight has ended or its callers' time is over.
func (l *Listing) wait(ctx context.Context, f *flight) {
	for {
		left := l.patience(f)
		if left <= 0 {
			return
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
			continue // a page may have come
		case <-f.done:
		case <-ctx.Done():
		}
		timer.Stop()
		return
	}
}

func (l *Listing) patience(f *flight) time.Duration {
	if f.trial {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(time.Until(f.page.Add(pageWait)), time.Until(f.started.Add(callWait)))
}

// land ends every flight. A discarded flight leaves no trace.
func (l *Listing) land(f *flight, s *snapshot, err error) {
	l.mu.Lock()
	if l.flight != f {
		l.mu.Unlock()
		return
	}
	l.flight = nil
	var delay time.Duration
	if err == nil {
		l.last, l.failures = s, 0
	} else {
		delay = min(minBackOff<<min(l.failures, 10), maxBackOff)
		l.failures++
		l.until = time.Now().Add(delay)
	}
	l.mu.Unlock()
	if err != nil {
		l.options.Observer.Failed(err, delay)
		return
	}
	l.options.Observer.Listed(s.instances, s.pages, s.took)
}

// contained turns a panic into an error: a page that triggers a panic must not end the
// manager.
func (l *Listing) contained(ctx context.Context, f *flight) (s *snapshot, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in the manager: %v", p)
			klog.FromContext(ctx).Error(err, "A listing failed", "stack", string(debug.Stack()))
		}
	}()
	return l.fetch(ctx, f)
}

func (l *Listing) fetch(ctx context.Context, f *flight) (*snapshot, error) {
	pages := newAssembly(defaultBounds(), l.options.Addresses())
	for token := ""; ; {
		page, err := l.fetchPage(ctx, f, token)
		if err != nil {
			return nil, fmt.Errorf("page %d: %w", pages.pages+1, err)
		}
		if token, err = pages.add(page); err != nil {
			return nil, fmt.Errorf("%s: invalid answer of the guest: page %d: %w", abi.OpListInstances, pages.pages, err)
		}
		l.mu.Lock()
		f.page = time.Now()
		l.mu.Unlock()
		if token == "" {
			return pages.finish(f.started), nil
		}
	}
}

// fetchPage asks for one page until it comes.
func (l *Listing) fetchPage(ctx context.Context, f *flight, token string) (*abi.ListInstancesResponse, error) {
	for {
		page, err := l.ListInstances(ctx, f.number, token, l.options.PageSize)
		if err == nil && page == nil {
			return nil, errors.New("the answer is missing")
		}
		var later *cloudproviderapi.RetryError
		if !errors.As(err, &later) {
			return page, err
		}
		timer := time.NewTimer(min(max(later.RetryAfter(), minPoll), maxPoll))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("it was given up after %v: %w", time.Since(f.started).Round(time.Second), err)
		}
	}
}
