package shadow

import "time"

// stopwatch measures the time of a guest itself, and ends its op when that is too much.
// One goroutine at a time uses it.
type stopwatch struct {
	timer *time.Timer
	// limit is what is allowed, spent what was until since; since is zero while it stands.
	limit, spent time.Duration
	since        time.Time
}

// newStopwatch returns one that runs.
func newStopwatch(limit time.Duration, end func()) *stopwatch {
	return &stopwatch{timer: time.AfterFunc(limit, end), limit: limit, since: time.Now()}
}

// stop returns what was spent.
func (s *stopwatch) stop() time.Duration {
	if s.timer.Stop(); !s.since.IsZero() {
		s.spent += time.Since(s.since)
		s.since = time.Time{}
	}
	return s.spent
}

// run goes on. What is over ends at once.
func (s *stopwatch) run() {
	s.since = time.Now()
	s.timer.Reset(max(0, s.limit-s.spent))
}
