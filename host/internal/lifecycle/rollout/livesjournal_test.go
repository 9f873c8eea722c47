package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

// passes are rollout.Trials of all processes: what is called suspect ends
// managers, and a standby waits until the leader has passed what is offered.
type passes struct {
	mu     sync.Mutex
	passed map[string]bool
}

func (b *passes) Begin(_ context.Context, bundle source.Bundle, _ string, s rollout.Standing) (rollout.Trial, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case strings.HasPrefix(bundle.Revision, "suspect") && s != rollout.Pardoned && s != rollout.Trusted && !b.passed[bundle.Revision]:
		return nil, &rollout.Suspected{Err: errors.New("it ended a manager"), Again: 0}
	case s == rollout.Standby && !b.passed[bundle.Revision]:
		return nil, rollout.ErrTriedElsewhere
	}
	return attempt{b, bundle.Revision}, nil
}

type attempt struct {
	*passes
	revision string
}

func (attempt) Reached(rollout.Phase) {}
func (attempt) Ended()                {}
func (a attempt) Passed(then func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.passed[a.revision] = true
	go then()
}

// faulty is the journal of all processes, which fails at times.
type faulty struct {
	mu             sync.Mutex
	record         rollout.Record
	bundle         *source.Bundle
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
	good := "nothing"
	if r.Good != nil {
		good = r.Good.Revision
	}
	text := fmt.Sprintf("%q paused %v refused", good, r.Paused)
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
	if j.record.Good == nil {
		return ""
	}
	if j.bundle == nil || j.bundle.Revision != j.record.Good.Revision {
		return "the record calls something good that is not kept"
	}
	s := rollout.State{Refused: j.record.Refused}
	if s.Refusal(rollout.Revision{Module: j.record.Good.Digest, Bundle: j.record.Good.Revision}) != nil {
		return "the record calls something good that it refuses"
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

func (h *handle) Load(context.Context) (rollout.Record, *source.Bundle, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unread > 0 {
		h.unread--
		return rollout.Record{}, nil, errors.New("the API server is away")
	}
	return h.record, h.bundle, nil
}

func (h *handle) Save(_ context.Context, r rollout.Record) error { return h.write(nil, r) }
func (h *handle) Keep(_ context.Context, b source.Bundle, r rollout.Record) error {
	return h.write(&b, r)
}

func (h *handle) write(b *source.Bundle, r rollout.Record) error {
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
	h.record = r
	if b != nil {
		h.bundle = b
	} else if r.Good == nil || h.bundle != nil && h.bundle.Revision != r.Good.Revision {
		h.bundle = nil
	}
	return nil
}

func (h *handle) life() *life { return h.liver.life }
