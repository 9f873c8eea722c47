package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

// faulty is the journal of all processes, which fails at times.
type faulty struct {
	mu             sync.Mutex
	record         rollout.Record
	bundles        map[string]source.Bundle
	unread, refuse int // so many reads, and writes, fail
	intruder       string
}

func (j *faulty) fail(reads, writes int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.unread, j.refuse = reads, writes
}

func (j *faulty) healthy() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.unread == 0 && j.refuse == 0
}

func (j *faulty) read() rollout.Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.record
}

func (j *faulty) String() string {
	r := j.read()
	text := fmt.Sprintf("paused %v saved", r.Paused)
	for _, v := range r.Saved {
		text += fmt.Sprintf(" %s(%v)", v.Revision, v.Kept)
	}
	text += " refused"
	for _, f := range r.Refused {
		text += fmt.Sprintf(" %s(%s)", f.Revision, f.Scope)
	}
	return text
}

// wrong says what of the record must never be.
func (j *faulty) wrong() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.intruder != "" {
		return j.intruder + " has written to the journal, and does not lead"
	}
	if len(j.record.Saved) > 3 {
		return "too much is saved"
	}
	for i, v := range j.record.Saved {
		if _, ok := j.bundles[v.Revision]; !ok {
			return "the record calls something saved that is not"
		}
		if i > 0 && !v.Kept {
			return "something is saved that was not kept, and does not serve"
		}
	}
	return ""
}

// holds says what of a state is not in the record, or "". What is good is there
// when its trial is over.
func (j *faulty) holds(s rollout.State) string {
	r := j.read()
	var here, there []string
	for _, f := range s.Refused {
		here = append(here, f.Revision.String()+string(f.Scope))
	}
	for _, f := range r.Refused {
		there = append(there, f.Revision.String()+string(f.Scope))
	}
	switch {
	case r.Paused != s.Paused:
		return "paused differs"
	case !slices.Equal(here, there):
		return fmt.Sprintf("refused are %v, recorded %v", here, there)
	}
	return ""
}

// handle is the journal as one process has it.
type handle struct {
	*faulty
	liver *liver
	dead  atomic.Bool
}

func (h *handle) Load(context.Context) (rollout.Record, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unread > 0 {
		h.unread--
		return rollout.Record{}, errors.New("the API server is away")
	}
	return h.record, nil
}

func (h *handle) Bundle(_ context.Context, revision string) (*source.Bundle, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b, ok := h.bundles[revision]; ok {
		return &b, nil
	}
	return nil, errors.New("it is not saved")
}

func (h *handle) Save(_ context.Context, r rollout.Record, bundles []source.Bundle) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.dead.Load():
		return errors.New("the process is gone")
	case h.refuse > 0:
		h.refuse--
		return errors.New("the API server is away")
	}
	if h.life().leader != h.liver {
		h.intruder = h.liver.name
	}
	h.record, h.bundles = r, saved(r, bundles, h.bundles)
	return nil
}

func (h *handle) life() *life { return h.liver.life }
