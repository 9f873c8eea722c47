package async

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// What has begun goes on to its end, and nothing else begins.
func TestDrainWaitsForWhatHasBegun(t *testing.T) {
	const takes = 5 * time.Second
	next, _ := taking(always(takes))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		start := time.Now()
		_, err := ensure(i, "web")
		retry(t, err)
		if err := i.Drain(context.Background()); err != nil || time.Since(start) != takes {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if _, err := ensure(i, "other"); !errors.Is(err, errShutdown) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestDrainNamesWhatDoesNotEnd(t *testing.T) {
	next, _ := taking(always(-1))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		_, err := ensure(i, "web")
		retry(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := i.Drain(ctx); err == nil || !strings.Contains(err.Error(), "lb_ensure default/web") {
			t.Errorf("error %v", err)
		}
	})
}
