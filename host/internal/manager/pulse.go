package manager

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	pulseInterval = 250 * time.Millisecond
	// stall is longer than a goroutine's wait on a busy machine, and shorter
	// than the timeout of the liveness probe.
	stall = 3 * time.Second
	// stallMemory is longer than the kubelet's time from the first failed probe
	// to the signal.
	stallMemory = time.Minute
)

// pulse notices that the process stood still. The following end of the process may
// then be due to the liveness probe, and not to a person.
//
// Times are since the start of the process, and independent of changes of the clock.
type pulse struct {
	begun         time.Time
	last, stalled atomic.Int64
}

func newPulse() *pulse { return &pulse{begun: time.Now()} }

// run beats until the context ends.
func (p *pulse) run(ctx context.Context) {
	beats := time.NewTicker(pulseInterval)
	defer beats.Stop()
	for {
		p.beat(time.Since(p.begun))
		select {
		case <-ctx.Done():
			return
		case <-beats.C:
		}
	}
}

// beat is called repeatedly by one goroutine.
func (p *pulse) beat(now time.Duration) {
	last := time.Duration(p.last.Swap(int64(now)))
	if last != 0 && now-last > stall {
		p.stalled.Store(int64(now))
	}
}

// steady: the process has not stood still recently.
func (p *pulse) steady(now time.Duration) bool {
	last, stalled := time.Duration(p.last.Load()), time.Duration(p.stalled.Load())
	return (last == 0 || now-last <= stall) && (stalled == 0 || now-stalled > stallMemory)
}
