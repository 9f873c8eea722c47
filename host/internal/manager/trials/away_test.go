package trials

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

// A write to an unavailable API server is retried after a pause, and not at once.
func TestNotesThatAreNotWrittenWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var asked atomic.Int32
		client.PrependReactor("*", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			if asked.Add(1) > 1000 {
				panic("it is asked without a pause")
			}
			return true, nil, errors.New("connection refused")
		})
		p := newProcess(t, client, "host:1", "main")
		stop := p.run(t)
		p.books[0].note(func(*trial.Book) {})
		time.Sleep(noteRetry * 10)
		stop()
		synctest.Wait()
		if n := asked.Load(); n < 5 || n > 12 {
			t.Errorf("it was asked %d times in %v", n, noteRetry*10)
		}
	})
}

// The end of the process has a time limit for each book, even while an API
// server that hangs blocks a write.
func TestLeavingDoesNotWaitForAWriteThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, fake.NewClientset(), "host:1", "main")
		if err := p.books[0].changing.Take(t.Context()); err != nil { // as a write does
			t.Fatal(err)
		}
		begun := time.Now()
		if err := p.Leave(t.Context()); err == nil || time.Since(begun) > LeaveTimeout {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		p.books[0].changing.Leave()
		// Its mark would never be struck out, and the module would be suspected.
		if _, err := p.books[0].Of("")(t.Context(), source.Bundle{Module: []byte("new")}, engine.Default, trial.Offered); !waits(err) {
			t.Errorf("a trial that begins after it: %v", err)
		}
	})
}
