package brake

import (
	"context"
	"sync"
	"time"
)

const liftedPeriod = 10 * time.Second

// lift is the last reading of the lift annotation.
type lift struct {
	read func(context.Context) (time.Time, error)

	mu    sync.Mutex
	until time.Time
	at    time.Time
	err   error
}

// lifted reads it once per period. An error is no permission: whoever can make the API
// server fail must not be able to lift the brake.
func (b *Brake) lifted(ctx context.Context) bool {
	l, now := &b.lift, b.now()
	if l.read == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.IsZero() || now.Sub(l.at).Abs() >= liftedPeriod {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		l.at = now
		if l.until, l.err = l.read(ctx); l.err != nil {
			l.until = time.Time{}
		}
		b.failed(FailedLift, l.err)
	}
	return now.Before(l.until)
}
