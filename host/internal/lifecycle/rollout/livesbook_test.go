package rollout_test

import (
	"context"
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

func (b *bookOf) Begin(_ context.Context, bundle source.Bundle, _ string, s trial.Standing) (rollout.Trial, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, boot := time.Now(), fmt.Sprint(b.boot)
	if !b.opened {
		b.book.Recover(b.liver.host, trial.Blame(b.book.Left(b.liver.host), now), boot, "", now)
		b.opened = true
	}
	trusted := s == trial.Pardoned || s == trial.Trusted || s == trial.LastResort || s == trial.Resuming
	if strings.HasPrefix(bundle.Revision, "suspect") && !trusted {
		return nil, &trial.Suspect{Words: "it ended a manager"}
	}
	b.id++
	m := trial.Mark{Subject: trial.Subject{Module: bundle.ModuleDigest(), Config: bundle.Revision}, ID: b.id, Manager: b.liver.host, Since: now, Boot: boot}
	if err := b.book.Begin(m, s, func(trial.Mark) bool { return true }); err != nil {
		return nil, err
	}
	return func(p rollout.Phase) { // a process that was killed writes nothing more
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.liver.journal.dead.Load() {
			b.book.Reach(m.Manager, m.ID, string(p), time.Now())
		}
	}, nil
}
