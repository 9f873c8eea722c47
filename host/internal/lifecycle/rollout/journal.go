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

// Record is what a rollout remembers across restarts.
type Record struct {
	// Saved are what a restart begins with: the newest first that may serve.
	Saved []Saved
	// History are the generations that served, the newest first.
	History    []Served
	Generation int64
	Paused     bool
	Refused    []Refusal
	// Held names what the source held last.
	Held string
}

// ErrNotKept is of a bundle that cannot be saved, however often it is tried. The
// record was saved.
var ErrNotKept = errors.New("a restart will begin with the module of the source, not with what serves")

// ErrNoRecord is of a record that cannot be used, and will not be by waiting:
// it is damaged, or the right to read it is missing.
var ErrNoRecord = errors.New("the record cannot be used")

// Journal keeps the record, and the bundles of Record.Saved. It is used by
// one goroutine at a time.
type Journal interface {
	// Load returns the record, the zero one when there is none. An error
	// that is no ErrNoRecord may pass. With ErrNoRecord, Paused holds all the
	// same, if it is true.
	Load(ctx context.Context) (Record, error)
	// Bundle returns the saved bundle of that revision.
	Bundle(ctx context.Context, revision string) (*source.Bundle, error)
	// Save saves the bundles of Record.Saved that are not saved yet, as far as they are in
	// bundles, and then the record. It may fail with ErrNotKept.
	Save(ctx context.Context, record Record, bundles []source.Bundle) error
}

// journalTimeout bounds one read or write of the journal.
const journalTimeout = 10 * time.Second

// newDelays are the times between two tries with the journal.
func newDelays() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Steps: 6, Cap: time.Minute}
}

// journalist writes the journal beside Run: what was swapped in must not wait
// for the API server. Only the newest state is written.
type journalist struct {
	journal  Journal
	clock    clock.WithTicker
	reporter Reporter
	wake     chan struct{}

	mu      sync.Mutex
	dirty   bool
	record  Record
	bundles []source.Bundle
	writing sync.Mutex // held while the journal is used
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

// pend adds bundles that the record calls saved to those to be written. It is
// called with mu.
func (j *journalist) pend(bundles []source.Bundle) {
	all := append(bundles, j.bundles...)
	j.bundles = nil
	for _, s := range j.record.Saved {
		if i := slices.IndexFunc(all, func(b source.Bundle) bool { return b.Revision == s.Revision }); i >= 0 {
			j.bundles = append(j.bundles, all[i])
		}
	}
}

// run writes until the context ends. What is not written then is for flush.
func (j *journalist) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-j.wake:
		}
		delays := newDelays()
		for j.write(ctx) != nil {
			select {
			case <-ctx.Done():
				return
			case <-j.wake: // something newer
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

// writeOnce writes what is worth one try.
func (j *journalist) writeOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, onceTimeout)
	defer cancel()
	_ = j.write(ctx) // the Reporter is told
}

// flush writes what run has not written, when the manager ends. What it cannot
// write the Reporter was told.
func (j *journalist) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	for j.write(ctx) != nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(flushDelay):
		}
	}
}

// write writes the pending record, and keeps it pending when the write fails.
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
	j.reporter.Journalled(err)
	if err == nil || errors.Is(err, ErrNotKept) {
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
