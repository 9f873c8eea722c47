package manager

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
)

// Who waits for the end hears what goes on all the same.
func TestTasksAreWaitedForByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group tasks
		hang := make(chan struct{})
		group.Go("the source", func() { <-hang })
		group.Go("the rollout", func() { time.Sleep(time.Second) })
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := group.wait(ctx); err == nil || !strings.Contains(err.Error(), "the source") || strings.Contains(err.Error(), "rollout") {
			t.Errorf("%v, want the one that goes on", err)
		}
		close(hang)
		if err := group.wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A task may start another one while somebody waits.
func TestTasksOfTasksAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group tasks
		ended := false
		group.Go("first", func() {
			time.Sleep(time.Second)
			group.Go("second", func() {
				time.Sleep(time.Second)
				ended = true
			})
		})
		if err := group.wait(t.Context()); err != nil || !ended {
			t.Errorf("%v, ended: %v", err, ended)
		}
	})
}

// An API server that is away is asked again after a pause, and not at once.
func TestNotesThatAreNotWrittenWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var asked atomic.Int32
		client.PrependReactor("*", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			if asked.Add(1) > 1000 {
				panic("it is asked without a pause")
			}
			return true, nil, errCut
		})
		p := newProcess(t, client, "host:1", "main")
		stop := p.run(t)
		p.books[0].note(func(*trial.Book) {}, nil)
		time.Sleep(noteRetry * 10)
		stop()
		synctest.Wait()
		if n := asked.Load(); n < 5 || n > 12 {
			t.Errorf("it was asked %d times in %v", n, noteRetry*10)
		}
	})
}

// The end of the process waits no longer for a book than it may, also while an
// API server that hangs keeps another one writing.
func TestLeavingDoesNotWaitForAWriteThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, fake.NewClientset(), "host:1", "main")
		if err := p.books[0].changing.take(t.Context()); err != nil { // as a write does
			t.Fatal(err)
		}
		begun := time.Now()
		if err := p.leave(t.Context()); err == nil || time.Since(begun) > leaveTimeout {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}
