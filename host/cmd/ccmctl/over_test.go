package main

import (
	"context"
	"testing"
	"time"
)

// late is a context after its deadline whose timer has not fired yet.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now().Add(-time.Nanosecond), true }
func (late) Err() error                  { return nil }

// The last answer of status --wait is not the error of a request after the deadline.
func TestOver(t *testing.T) {
	if !over(late{t.Context()}) {
		t.Error("a deadline that has passed is not over")
	}
	if over(t.Context()) {
		t.Error("no deadline is over")
	}
}
