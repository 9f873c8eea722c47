package rollout

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

// Record is the state of a rollout that survives restarts.
type Record struct {
	// Saved are the bundles for a restart: the newest first that may serve.
	Saved []Saved `json:"saved,omitempty"`
	// Refused has the newest last. Package status writes it: its form is an older one.
	Refused    []Refusal `json:"-"`
	Generation int64     `json:"generation,omitempty"`
	Paused     bool      `json:"paused,omitempty"`
	// Held names the last content of the source.
	Held string `json:"held,omitempty"`
	// History are the generations that served, the newest first.
	History []Served `json:"history,omitempty"`
}

// ErrNotKept is the error of a bundle that can never be saved. The record was saved.
var ErrNotKept = errors.New("a restart will begin with the module of the source, not with the serving one")

// ErrNoRecord is the error of an unusable record, for good: it is damaged, or the right to
// read it is missing.
var ErrNoRecord = errors.New("the record cannot be used")

// Journal keeps the record, and the bundles of Record.Saved. It is used by one goroutine at
// a time.
type Journal interface {
	// Load returns the record, or the zero Record. An error other than ErrNoRecord may be
	// temporary. With ErrNoRecord, a true Paused is still valid.
	Load(ctx context.Context) (Record, error)
	// Bundle returns the saved bundle of that revision.
	Bundle(ctx context.Context, revision string) (*source.Bundle, error)
	// Save saves the unsaved bundles of Record.Saved that are in bundles, and then the record.
	// It may fail with ErrNotKept.
	Save(ctx context.Context, record Record, bundles []source.Bundle) error
}

// journalTimeout bounds one read or write of the journal.
const journalTimeout = 10 * time.Second

// newDelays are the times between two tries with the journal.
func newDelays() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Steps: 6, Cap: time.Minute}
}

// journalist writes the journal beside Run: a takeover must not wait for the API server.
// Only the newest state is written.
type journalist struct {
	journal  Journal
	clock    clock.WithTicker
	reporter Reporter
	wake     chan struct{}

	mu      sync.Mutex
	dirty   bool
	record  Record
	bundles []source.Bundle
	writing sync.Mutex // held during use of the journal
}

func newJournalist(j Journal, c clock.WithTicker, r Reporter) *journalist {
	return &journalist{journal: j, clock: c, reporter: r, wake: make(chan struct{}, 1)}
}

func (j *journalist) save(record Record, bundles []source.Bundle) {
	if j.journal == nil {
		return
	}
	j.mu.Lock()
	j.dirty, j.record = true, record
	j.pend(bundles)
	j.mu.Unlock()
	signal(j.wake)
}

// pend queues bundles that the record calls saved. The caller holds mu.
func (j *journalist) pend(bundles []source.Bundle) {
	all := append(bundles, j.bundles...)
	j.bundles = nil
	for _, s := range j.record.Saved {
		if i := slices.IndexFunc(all, func(b source.Bundle) bool { return b.Revision == s.Revision }); i >= 0 {
			j.bundles = append(j.bundles, all[i])
		}
	}
}

// run writes until the context ends; flush writes the rest. A first failure of a write is
// not reported: other managers write the same object, and the API server may restart.
func (j *journalist) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-j.wake:
		}
		delays, failures := newDelays(), 0
		for err := j.write(ctx); err != nil; err = j.write(ctx) {
			if failures++; failures > 1 && ctx.Err() == nil {
				j.reporter.Journalled(err)
			}
			select {
			case <-ctx.Done():
				return
			case <-j.wake: // there is a newer record
			case <-j.clock.After(delays.Step()):
			}
		}
	}
}

// Bounds of flush.
const (
	flushTimeout = 5 * time.Second
	flushDelay   = time.Second
	onceTimeout  = time.Second
)

// writeOnce writes what deserves one try: after a failure only the counts of calls are
// older.
func (j *journalist) writeOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, onceTimeout)
	defer cancel()
	_ = j.write(ctx)
}

// flush writes the rest when the manager ends, and reports failures to the Reporter.
func (j *journalist) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	for err := j.write(ctx); err != nil; err = j.write(ctx) {
		select {
		case <-ctx.Done():
			j.reporter.Journalled(err)
			return
		case <-time.After(flushDelay):
		}
	}
}

// write writes the pending record, and keeps it pending after a failure, which the caller
// reports.
func (j *journalist) write(ctx context.Context) error {
	j.mu.Lock()
	dirty, record, bundles := j.dirty, j.record, j.bundles
	j.dirty, j.bundles = false, nil
	j.mu.Unlock()
	if !dirty {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, journalTimeout)
	defer cancel()
	j.writing.Lock()
	defer j.writing.Unlock()
	err := j.journal.Save(ctx, record, bundles)
	if err == nil || errors.Is(err, ErrNotKept) {
		j.reporter.Journalled(err)
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.dirty {
		j.dirty, j.record = true, record
	}
	j.pend(slices.Concat(j.bundles, bundles))
	return err
}

func (j *journalist) load(ctx context.Context) (Record, error) {
	if j.journal == nil {
		return Record{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, journalTimeout)
	defer cancel()
	j.writing.Lock()
	defer j.writing.Unlock()
	return j.journal.Load(ctx)
}

func (j *journalist) bundle(ctx context.Context, revision string) (*source.Bundle, error) {
	ctx, cancel := context.WithTimeout(ctx, journalTimeout)
	defer cancel()
	j.writing.Lock()
	defer j.writing.Unlock()
	return j.journal.Bundle(ctx, revision)
}
