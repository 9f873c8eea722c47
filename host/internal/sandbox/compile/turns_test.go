package compile

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// children take turns as Prepare does, and note who ran.
type children struct {
	turns turns
	mu    sync.Mutex
	ran   []string
}

// run begins a child that needs so much time, and tells when it has ended.
func (c *children) run(ctx context.Context, owner string, needs time.Duration) (ended <-chan error) {
	done := make(chan error, 1)
	go func() {
		for slice := firstSlice; ; slice *= 2 {
			held, leave, err := c.turns.take(ctx, owner, slice)
			if err != nil {
				done <- err
				return
			}
			select {
			case <-time.After(needs):
				err = nil
			case <-held.Done():
				err = context.Cause(held)
			}
			leave()
			if errors.Is(err, errYield) {
				continue
			}
			c.mu.Lock()
			c.ran = append(c.ran, owner)
			c.mu.Unlock()
			done <- err
			return
		}
	}()
	synctest.Wait()
	return done
}

func TestAnOwnerWithManyModulesHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c children
		var last <-chan error
		for range 4 {
			last = c.run(t.Context(), "many", time.Second)
		}
		c.run(t.Context(), "one", time.Second)
		c.run(t.Context(), "other", time.Second)
		if err := <-last; err != nil {
			t.Error(err)
		}
		if want := []string{"many", "one", "other", "many", "many", "many"}; !slices.Equal(c.ran, want) {
			t.Errorf("%v, want %v", c.ran, want)
		}
	})
}

// A module that takes the whole minute lets the others pass, and is compiled
// in the end, although somebody always wants a turn.
func TestASlowModuleHoldsNobodyForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c children
		slow := c.run(t.Context(), "slow", 55*time.Second)
		time.Sleep(time.Second)
		begun := time.Now()
		if err := <-c.run(t.Context(), "quick", time.Second); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > firstSlice+time.Second {
			t.Errorf("another owner waits for %v", took)
		}
		var stop atomic.Bool
		var others sync.WaitGroup
		others.Go(func() {
			for !stop.Load() {
				if err := <-c.run(context.Background(), "quick", time.Second); err != nil {
					t.Error(err)
				}
			}
		})
		begun = time.Now()
		if err := <-slow; err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > 5*time.Minute {
			t.Errorf("the slow one is compiled after %v", took)
		}
		stop.Store(true)
		others.Wait()
	})
}

// With nobody waiting nobody yields.
func TestASlowModuleAloneIsNotDisturbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c children
		begun := time.Now()
		slow, second := c.run(t.Context(), "slow", 55*time.Second), c.run(t.Context(), "slow", time.Second)
		if err := errors.Join(<-slow, <-second); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != 56*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c children
		running, end := context.WithCancel(t.Context())
		first := c.run(running, "first", time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		waiting := c.run(ctx, "second", time.Second)
		third := c.run(t.Context(), "third", time.Second)
		cancel()
		if err := <-waiting; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		end()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := <-third; err != nil {
			t.Error(err)
		}
		if c.turns.running != nil || len(c.turns.waiting) > 0 {
			t.Error("a turn is lost")
		}
	})
}
