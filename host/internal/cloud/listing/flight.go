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
	// pageWait is how long a caller waits without another page, and callWait
	// how long at all; both count for all callers of a flight together. The
	// first is more than a page takes that host/internal/cloud/async waits for (2 s), and
	// hands over when it is asked again.
	pageWait = 3 * time.Second
	callWait = 10 * time.Second
	// flightTime is the longest that a flight takes, its callers gone.
	flightTime = 3 * time.Minute
	// The time without a flight after one that failed, and the longest; each
	// is twice the one before.
	minBackOff = 10 * time.Second
	maxBackOff = 5 * time.Minute
	// The delay between two questions for one page.
	minPoll, maxPoll = 100 * time.Millisecond, time.Minute
)

// flight is one listing that is being fetched.
type flight struct {
	number  uint64
	started time.Time
	// trial is a flight after one that failed: nobody waits for it.
	trial  bool
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended and the result is in place
	// page is when the last page came; guarded by Listing.mu.
	page time.Time
}

// newest returns a listing not older than age, which it has fetched if need
// be. Without one, slow says that it is on its way and takes longer than
// callers wait; else it is not to be had.
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

// join returns a listing that is young enough, or the flight that brings one,
// or neither when the last one has failed.
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

// take begins a flight. What the context carries goes along, its end does not.
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

// wait returns when the flight has ended or callers have waited enough.
func (l *Listing) wait(ctx context.Context, f *flight) {
	for {
		left := l.patience(f)
		if left <= 0 {
			return
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
			continue // there may have been a page
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

// land is the end of every flight. One that was discarded leaves nothing.
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

// contained makes an error of a panic: it would end the manager, for a page
// that finds one in it.
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

// fetchPage asks for one page until it is there.
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
