package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
)

// shelf has the book of trials, as all processes read and write it. What is
// called suspect is run by nobody whom no person has told to.
type shelf struct {
	mu   sync.Mutex
	book trial.Book
	id   int64
	boot int
}

// bookOf is the book as one process has it. It is a rollout.Trials.
type bookOf struct {
	*shelf
	liver  *liver
	opened bool
}

// leave is what a process does that ends in order.
func (b *bookOf) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.book.Leave(b.liver.host)
}

func (b *bookOf) Begin(_ context.Context, bundle source.Bundle, _ string, s rollout.Standing) (rollout.Trial, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, boot := time.Now(), fmt.Sprint(b.boot)
	if !b.opened {
		b.book.Recover(b.liver.host, trial.Ending{Blamed: trial.Blame(b.book.Left(b.liver.host), now), Boot: boot}, now)
		b.opened = true
	}
	trusted := s == rollout.Pardoned || s == rollout.Trusted || s == rollout.LastResort || s == rollout.Resuming
	if strings.HasPrefix(bundle.Revision, "suspect") && !trusted {
		return nil, &rollout.Suspected{Err: errors.New("it ended a manager")}
	}
	b.id++
	standings := map[rollout.Standing]trial.Standing{
		rollout.Offered: trial.Offered, rollout.Pardoned: trial.Pardoned, rollout.Trusted: trial.Kept,
		rollout.LastResort: trial.Last, rollout.Resuming: trial.Resumed, rollout.Standby: trial.Standby,
	}
	m := trial.Mark{Subject: trial.Subject{Module: bundle.ModuleDigest(), Config: bundle.Revision}, ID: b.id, Manager: b.liver.host, Since: now, Boot: boot}
	err := b.book.Begin(m, standings[s], func(trial.Mark) bool { return true })
	var suspect *trial.Suspect
	switch {
	case errors.As(err, &suspect):
		return nil, &rollout.Suspected{Err: err, Again: suspect.Again(now)}
	case err != nil:
		return nil, fmt.Errorf("%w: %w", rollout.ErrTriedElsewhere, err)
	}
	return marked{b, m.ID}, nil
}

// marked is a rollout.Trial. A process that was killed writes nothing more.
type marked struct {
	*bookOf
	id int64
}

func (m marked) note(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.liver.journal.dead.Load() {
		change()
	}
}

func (m marked) Reached(p rollout.Phase) {
	m.note(func() { m.book.Reach(m.liver.host, m.id, string(p)) })
}
func (m marked) Ended() { m.note(func() { m.book.Strike(m.liver.host, m.id) }) }
func (m marked) Kept()  { m.note(func() { m.book.Pass(m.liver.host, m.id, time.Now()) }) }
