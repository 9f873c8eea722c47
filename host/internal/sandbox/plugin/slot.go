package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// ErrNotServing is the error of every op before the first generation.
var ErrNotServing = errors.New("no provider is serving yet; see the Events of its ConfigMap and the manager's log")

// Slot holds the serving generation. Controllers keep the slot, so the generation behind it
// can change. It is safe for concurrent use.
type Slot struct {
	mu      sync.Mutex
	serving *Generation
	// changed is closed at the next takeover.
	changed chan struct{}
	// first is closed at the first takeover.
	first chan struct{}
	once  sync.Once
	// recorder is set before the slot is used; it may be nil.
	recorder Recorder
}

// Recorder sees the ops of the serving generation, whichever it is.
type Recorder interface {
	// Begin is called before an op. The op runs with the returned context; the function gets the
	// outcome: a code with the encoded response or error detail, or an error.
	Begin(ctx context.Context, op abi.Op, request []byte) (context.Context, func(code abi.Code, response []byte, err error))
}

// NewSlot returns an empty slot.
func NewSlot() *Slot {
	return &Slot{first: make(chan struct{}), changed: make(chan struct{})}
}

// NewRecordedSlot returns an empty slot whose ops a recorder sees.
func NewRecordedSlot(r Recorder) *Slot {
	s := NewSlot()
	s.recorder = r
	return s
}

// Changed returns a channel that is closed at the next takeover.
func (s *Slot) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Serving returns the serving generation, or nil.
func (s *Slot) Serving() *Generation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.serving
}

// WaitServing returns once a generation serves, or with the context's error.
func (s *Slot) WaitServing(ctx context.Context) error {
	select {
	case <-s.first:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for a provider: %w", ctx.Err())
	}
}

// Swap is Serve for callers that no longer need the previous generation: it closes by itself
// after its last op. It is returned, or nil the first time.
func (s *Slot) Swap(ctx context.Context, next *Generation) (old *Generation) {
	if old = s.Serve(next); old != nil {
		old.Release(ctx)
	}
	return old
}

// Serve makes a generation the serving one. Running ops end on the previous one, which is
// returned: the caller owns it now, as it owned the new one before. It returns nil the first
// time.
func (s *Slot) Serve(next *Generation) (old *Generation) {
	s.mu.Lock()
	old, s.serving = s.serving, next
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	s.once.Do(func() { close(s.first) })
	return old
}

// Close empties the slot for good and waits until its ops have ended.
func (s *Slot) Close(ctx context.Context) {
	s.mu.Lock()
	old := s.serving
	s.serving = nil
	s.mu.Unlock()
	if old == nil {
		return
	}
	old.unpin(ctx)
	select {
	case <-old.Closed():
	case <-ctx.Done():
	}
}

// pinned returns the serving generation, pinned.
func (s *Slot) pinned() *Generation {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving == nil || !s.serving.pin() {
		return nil
	}
	return s.serving
}

// Invoke runs one op in the serving generation, within the op's timeout. A guest's answer
// other than success is an *abi.Error; any other failure is another error.
func (s *Slot) Invoke(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return s.invoke(ctx, op, req, resp, (*pool).call)
}

// InvokeFresh is Invoke in an instance that exists for this op only, so that no earlier op's
// memory can affect the answer.
func (s *Slot) InvokeFresh(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return s.invoke(ctx, op, req, resp, (*pool).callFresh)
}

func (s *Slot) invoke(ctx context.Context, op abi.Op, req, resp abi.Message, call poolCall) error {
	g := s.pinned()
	if g == nil {
		return ErrNotServing
	}
	defer g.unpin(ctx)
	if !g.Supports(op) {
		return &abi.Error{Code: abi.CodeNotImplemented, Message: fmt.Sprintf("the provider %s %s does not support %s", g.Name(), g.Version(), op)}
	}
	err := g.invokeRecorded(ctx, s.recorder, call, g.limits.timeout(op), op, req, resp)
	g.tally.count(ctx, op, err)
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*abi.Error](err); ok {
		return err
	}
	return fmt.Errorf("%s: %w", op, err)
}

// Instances bounds the concurrent ops of the serving generation; 0 before the first one.
func (s *Slot) Instances() int {
	if g := s.Serving(); g != nil {
		return g.limits.MaxInstances
	}
	return 0
}

// Supports reports whether the serving generation has the op.
func (s *Slot) Supports(op abi.Op) bool {
	g := s.Serving()
	return g != nil && g.Supports(op)
}

// ProviderName is the serving generation's name for its cloud, or "".
func (s *Slot) ProviderName() string {
	if g := s.Serving(); g != nil {
		return g.ProviderName()
	}
	return ""
}

// HasClusterID is what the serving generation says of its configuration.
func (s *Slot) HasClusterID() bool {
	g := s.Serving()
	return g != nil && g.HasClusterID()
}

// ConfigDigest is the serving generation's, or "". A private configuration's must not be
// shown.
func (s *Slot) ConfigDigest() string {
	if g := s.Serving(); g != nil {
		return g.Digests().Config
	}
	return ""
}

// TickPeriod is the serving generation's, 0 for never.
func (s *Slot) TickPeriod() time.Duration {
	if g := s.Serving(); g != nil {
		return g.TickPeriod()
	}
	return 0
}
