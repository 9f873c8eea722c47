package controllers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func newMember(l *Loops) *member { return &member{ctx: l.ctx} }

// A loop that is told to stop is waited for, and none begins after that.
func TestStopWaitsForTheLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ended := NewLoops(), false
		s.run(t.Context(), newMember(s), func(ctx context.Context) {
			<-ctx.Done()
			time.Sleep(time.Second) // a call in flight
			ended = true
		})
		if err := s.Stop(t.Context()); err != nil || !ended {
			t.Errorf("ended %v, %v", ended, err)
		}
		s.run(t.Context(), newMember(s), func(context.Context) { t.Error("a loop begins after the end") })
		synctest.Wait()
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestStopDoesNotWaitForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, hang := NewLoops(), make(chan struct{})
		s.run(t.Context(), newMember(s), func(context.Context) { <-hang })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Stop(ctx); err == nil {
			t.Error("no error of a loop that goes on")
		}
		close(hang)
		synctest.Wait()
	})
}
