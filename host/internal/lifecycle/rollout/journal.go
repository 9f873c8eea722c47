package rollout

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

// Record is what a rollout remembers across restarts.
type Record struct {
	// Good was kept last; nil when nothing ever was. Its Revision is that of
	// the bundle: the terms of a generation are gone after a restart.
	Good       *Version
	Generation int64
	Paused     bool
	Refused    []Refusal
}

// ErrNotKept is of a bundle that cannot be kept, however often it is tried. The
// record was saved.
var ErrNotKept = errors.New("a restart will begin with the module of the source, not with the kept generation")

// ErrNoRecord is of a record that cannot be used, and will not be by waiting:
// it is damaged, or the right to read it is missing.
var ErrNoRecord = errors.New("the record cannot be used")

// Journal keeps the record, and the bundle that was kept last. It is used by
// one goroutine at a time.
type Journal interface {
	// Load returns the record and its bundle, nil when there is none. An error
	// that is no ErrNoRecord may pass. With ErrNoRecord, Paused holds all the
	// same, if it is true.
	Load(ctx context.Context) (Record, *source.Bundle, error)
	Save(ctx context.Context, record Record) error
	// Keep saves a bundle and then the record, of which it is the good one. It
	// may fail with ErrNotKept.
	Keep(ctx context.Context, bundle source.Bundle, record Record) error
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
	bundle  *source.Bundle // to be kept; nil: only the record is to be saved
	writing sync.Mutex     // held while the journal is used
}

func newJournalist(j Journal, c clock.WithTicker, r Reporter) *journalist {
	return &journalist{journal: j, clock: c, reporter: r, wake: make(chan struct{}, 1)}
}

func (j *journalist) save(record Record) { j.put(nil, record) }

func (j *journalist) keep(bundle source.Bundle, record Record) { j.put(&bundle, record) }

func (j *journalist) put(bundle *source.Bundle, record Record) {
	if j.journal == nil {
		return
	}
	j.mu.Lock()
	j.dirty, j.record = true, record
	if bundle != nil {
		j.bundle = bundle
	}
	j.mu.Unlock()
	signal(j.wake)
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
)

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
	dirty, record, bundle := j.dirty, j.record, j.bundle
	j.dirty, j.bundle = false, nil
	j.mu.Unlock()
	if !dirty {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, journalTimeout)
	defer cancel()
	j.writing.Lock()
	defer j.writing.Unlock()
	err := j.commit(ctx, bundle, record)
	j.reporter.Journalled(err)
	if err == nil || errors.Is(err, ErrNotKept) {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.dirty {
		j.dirty, j.record = true, record
	}
	if j.bundle == nil {
		j.bundle = bundle
	}
	return err
}

func (j *journalist) commit(ctx context.Context, bundle *source.Bundle, record Record) error {
	if bundle != nil {
		return j.journal.Keep(ctx, *bundle, record)
	}
	return j.journal.Save(ctx, record)
}

func (j *journalist) load(ctx context.Context) (Record, *source.Bundle, error) {
	if j.journal == nil {
		return Record{}, nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, journalTimeout)
	defer cancel()
	j.writing.Lock()
	defer j.writing.Unlock()
	return j.journal.Load(ctx)
}

// save has the record written, by the manager that leads.
func (r *Rollout) save() {
	if r.state.Leading {
		r.journal.save(r.memory())
	}
}

// memory is what the journal has of this rollout.
func (r *Rollout) memory() Record {
	return Record{Good: r.recorded, Generation: r.generation, Paused: r.state.Paused, Refused: append([]Refusal(nil), r.state.Refused...)}
}
