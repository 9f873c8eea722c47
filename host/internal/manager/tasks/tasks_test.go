package tasks

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"
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

// A task that ends with an error says so at once, and not only to those who
// wait for it.
func TestAnErrorOfATaskIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group Group
		var logged []string
		logger := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
		group.Run(klog.NewContext(t.Context(), logger), "the rollout", func(context.Context) error { return errors.New("no record") })
		group.Run(t.Context(), "the status", func(context.Context) error { return nil })
		synctest.Wait()
		if len(logged) != 1 || !strings.Contains(logged[0], "the rollout") || !strings.Contains(logged[0], "no record") {
			t.Errorf("logged %q", logged)
		}
		if err := group.Failure(); err == nil || err.Error() != "no record" {
			t.Errorf("failure %v", err)
		}
	})
}
