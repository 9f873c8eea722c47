package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
)

// ticking is a guest with ticks. The test gives its answers.
type ticking struct {
	opcontext.Invoker
	begun  time.Time
	answer func(n int) error
	at     []time.Duration
}

func (g *ticking) Invoke(_ context.Context, op abi.Op, req, resp abi.Message) error {
	if op != abi.OpTick || req.(*abi.TickRequest).ClusterName != "c" {
		return fmt.Errorf("%s %v", op, req)
	}
	g.at = append(g.at, time.Since(g.begun))
	err := g.answer(len(g.at))
	resp.(*abi.Done).Done = err == nil
	return err
}

func TestTicker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guest := &ticking{begun: time.Now()}
		guest.answer = func(n int) error {
			switch n {
			case 2: // it continues in the background
				return &abi.Error{Code: abi.CodeRetryAfter, RetryAfter: time.Second}
			case 4:
				return errors.New("no cloud")
			}
			return nil
		}
		period, news := time.Minute, newChanges()
		var ends []error
		ticker := &ticker{
			invoker: guest, period: func() time.Duration { return period }, changed: news.Changed,
			ended: func(err error) { ends = append(ends, err) }, clusterName: "c",
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); ticker.run(ctx) }()

		time.Sleep(3*time.Minute + 30*time.Second)
		synctest.Wait()
		want := []time.Duration{60 * time.Second, 120 * time.Second, 130 * time.Second, 190 * time.Second}
		if !slices.Equal(guest.at, want) {
			t.Errorf("it ticks at %v, want %v", guest.at, want)
		}
		if len(ends) != 3 || ends[0] != nil || ends[1] != nil || ends[2] == nil {
			t.Errorf("the ends are %v", ends)
		}
		// The serving generation has no tick.
		period = 0
		news.tell()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(guest.at) != 4 {
			t.Errorf("it ticks without a period: %v", guest.at)
		}
		period = 10 * time.Second
		news.tell()
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if len(guest.at) != 5 {
			t.Errorf("%d ticks, want 5", len(guest.at))
		}
		cancel()
		<-ended
		time.Sleep(time.Hour)
		if len(guest.at) != 5 {
			t.Error("it ticks after its end")
		}
	})
}

// Secrets that are rotated more often than the guest's tick period make new
// generations, without the loss of a tick.
func TestTickerTicksBetweenChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guest := &ticking{begun: time.Now(), answer: func(int) error { return nil }}
		news := newChanges()
		ticker := &ticker{invoker: guest, period: func() time.Duration { return time.Hour }, changed: news.Changed, ended: func(error) {}, clusterName: "c"}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); ticker.run(ctx) }()
		for range 12 {
			time.Sleep(25 * time.Minute)
			synctest.Wait()
			news.tell()
		}
		cancel()
		<-ended
		want := []time.Duration{time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 5 * time.Hour}
		if got := guest.at; len(got) < 4 || !slices.Equal(got, want[:len(got)]) {
			t.Errorf("it ticks at %v, want %v", got, want)
		}
	})
}
