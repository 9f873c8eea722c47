package tasks

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A wait that ends early names the running goroutines.
func TestTasksAreWaitedForByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group Group
		hang := make(chan struct{})
		group.Go("the source", func() { <-hang })
		group.Go("the rollout", func() { time.Sleep(time.Second) })
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := group.Wait(ctx); err == nil || !strings.Contains(err.Error(), "the source") || strings.Contains(err.Error(), "rollout") {
			t.Errorf("%v, want the one that goes on", err)
		}
		close(hang)
		if err := group.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A task may start another one during a wait.
func TestTasksOfTasksAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group Group
		ended := false
		group.Go("first", func() {
			time.Sleep(time.Second)
			group.Go("second", func() {
				time.Sleep(time.Second)
				ended = true
			})
		})
		if err := group.Wait(t.Context()); err != nil || !ended {
			t.Errorf("%v, ended: %v", err, ended)
		}
	})
}
