package credential

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

const (
	// minLoginRest is the pause after a refused login; each further refusal doubles it, up to
	// maxLoginRest. Clouds lock accounts.
	minLoginRest = failureRest
	maxLoginRest = 5 * time.Minute
)

// loginRest prevents repeated logins with a wrong password.
//
// Invariant L5 (host/SECURITY.md): one login is in flight, and the pause grows with each
// refusal.
type loginRest struct {
	clock clock.PassiveClock
	// turn has room for the login in flight.
	turn chan struct{}

	mu      sync.Mutex
	version string // the Secret's
	refused int    // in a row
	status  int
	until   time.Time
	// proven is the version of the Secret that the cloud accepted last.
	proven string
}

func newLoginRest(clock clock.PassiveClock) *loginRest {
	return &loginRest{clock: clock, turn: make(chan struct{}, 1)}
}

// begin waits until no login is in flight. The error means that the pause is not over, or
// the context has ended. End is called after the answer or a failure.
func (l *loginRest) begin(ctx context.Context, version string) (end func(), err error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, &abi.Error{Code: abi.CodeDeadline, Message: "another login with this Secret has no answer yet"}
	}
	if err := l.allow(version); err != nil {
		<-l.turn
		return nil, err
	}
	return sync.OnceFunc(func() { <-l.turn }), nil
}

// isProven reports whether the cloud has accepted the Secret, and not refused it since.
func (l *loginRest) isProven(version string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.proven == version
}

// allow returns the error of a login during the pause.
func (l *loginRest) allow(version string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait := l.until.Sub(l.clock.Now()); l.version == version && l.refused > 0 && wait > 0 {
		return &abi.Error{Code: abi.CodeUnauthenticated, RetryAfter: wait, Message: fmt.Sprintf(
			"the cloud answered %d to the login; the next try with this Secret is in %s", l.status, wait.Round(time.Second))}
	}
	return nil
}

// answered records the cloud's answer to a login.
func (l *loginRest) answered(version string, status int, refused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.version != version {
		l.version, l.refused = version, 0
	}
	switch {
	case status == noAnswer:
	case status < http.StatusBadRequest:
		l.refused, l.proven = 0, version
	case refused:
		l.proven = ""
		wait := min(maxLoginRest, minLoginRest<<min(l.refused, 16))
		l.refused, l.status, l.until = l.refused+1, status, l.clock.Now().Add(wait)
	}
}

// basicLogin is basic authentication of requests without a session.
type basicLogin struct {
	basic
	rest *loginRest
}

// apply serialises logins until the cloud has accepted the Secret: any request without a
// session counts as a login.
func (b basicLogin) apply(ctx context.Context, c *call) error {
	end := func() {}
	if !b.rest.isProven(c.version) {
		var err error
		if end, err = b.rest.begin(ctx, c.version); err != nil {
			return err
		}
	}
	version := c.version
	c.answered = func(status int) {
		b.rest.answered(version, status, status == http.StatusUnauthorized)
		end()
	}
	err := b.basic.apply(ctx, c)
	if err != nil {
		end()
	}
	return err
}
