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
	// minLoginRest is how long nobody logs in again after the cloud has refused
	// to; it doubles up to maxLoginRest with each refusal. Clouds lock accounts.
	minLoginRest = failureRest
	maxLoginRest = 5 * time.Minute
)

// loginRest keeps a wrong password from being tried again and again.
//
// Invariant L5 (host/SECURITY.md): one login is in flight, and it waits longer with
// each refusal.
type loginRest struct {
	clock clock.PassiveClock
	// turn has room for the login in flight.
	turn chan struct{}

	mu      sync.Mutex
	version string // of the Secret
	refused int    // in a row
	status  int
	until   time.Time
	// proven is the version of a Secret that the cloud has accepted last.
	proven string
}

func newLoginRest(clock clock.PassiveClock) *loginRest {
	return &loginRest{clock: clock, turn: make(chan struct{}, 1)}
}

// begin waits until no login is in flight. The error is of a login that must wait
// longer, or whose context has ended. End is called when it has an answer, or has
// failed.
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

// isProven tells whether the cloud has accepted the Secret, and not refused it since.
func (l *loginRest) isProven(version string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.proven == version
}

// allow returns the error of a login that must wait.
func (l *loginRest) allow(version string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait := l.until.Sub(l.clock.Now()); l.version == version && l.refused > 0 && wait > 0 {
		return &abi.Error{Code: abi.CodeUnauthenticated, RetryAfter: wait, Message: fmt.Sprintf(
			"the cloud answered %d to the login; the next try with this Secret is in %s", l.status, wait.Round(time.Second))}
	}
	return nil
}

// answered counts what the cloud says to a login.
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

// basicLogin is basic authentication of requests that begin a session.
type basicLogin struct {
	basic
	rest *loginRest
}

// apply lets a Secret that the cloud has accepted go in several requests at a time:
// any request without a session counts as a login here.
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
