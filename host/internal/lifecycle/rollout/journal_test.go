package rollout

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

// busyJournal fails so many times. A Save takes a second, and ends with its context.
type busyJournal struct {
	Journal
	failures, saves int
}

func (b *busyJournal) Save(ctx context.Context, _ Record, _ []source.Bundle) error {
	b.saves++
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Second):
	}
	if b.failures--; b.failures >= 0 {
		return errors.New("the object has been modified")
	}
	return nil
}

// toldOf are the errors of journals that were told of; "" is a success.
type toldOf struct {
	Reporter
	texts []string
}

func (o *toldOf) Journalled(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	o.texts = append(o.texts, text)
}

// A write that fails once is tried again before anybody is warned, and one that ends
// with the manager is made by flush.
func TestOneWriteThatFailsIsNoWarning(t *testing.T) {
	for name, test := range map[string]struct {
		failures int
		ends     time.Duration // of run
		want     []string
	}{
		"once":               {failures: 1, ends: time.Hour, want: []string{""}},
		"twice":              {failures: 2, ends: time.Hour, want: []string{"the object has been modified", ""}},
		"ends meanwhile":     {ends: time.Second / 2, want: []string{""}},
		"fails to the end":   {failures: 100, ends: time.Second / 2, want: []string{"the object has been modified"}},
		"fails after a wake": {failures: 1, ends: time.Second + time.Second/2, want: []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				journal, told := &busyJournal{failures: test.failures}, &toldOf{}
				j := newJournalist(journal, clock.RealClock{}, told)
				ctx, cancel := context.WithTimeout(t.Context(), test.ends)
				defer cancel()
				j.save(Record{Generation: 1}, nil)
				j.run(ctx)
				j.flush(t.Context())
				if !slices.Equal(told.texts, test.want) {
					t.Errorf("told of %q after %d writes, want %q", told.texts, journal.saves, test.want)
				}
			})
		})
	}
}
