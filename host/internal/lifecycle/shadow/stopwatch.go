package shadow

import "time"

// stopwatch measures a guest's own time, and ends its op at the limit. One goroutine at a
// time uses it.
type stopwatch struct {
	timer *time.Timer
	// limit is the allowed time, spent the time until since; since is zero while it is stopped.
	limit, spent time.Duration
	since        time.Time
}

// newStopwatch returns a running stopwatch.
func newStopwatch(limit time.Duration, end func()) *stopwatch {
	return &stopwatch{timer: time.AfterFunc(limit, end), limit: limit, since: time.Now()}
}

// stop stops it and returns the time spent.
func (s *stopwatch) stop() time.Duration {
	if s.timer.Stop(); !s.since.IsZero() {
		s.spent += time.Since(s.since)
		s.since = time.Time{}
	}
	return s.spent
}

// run continues. Beyond the limit the op ends at once.
func (s *stopwatch) run() {
	s.since = time.Now()
	s.timer.Reset(max(0, s.limit-s.spent))
}
