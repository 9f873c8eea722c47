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

// Slot holds the generation that serves. Controllers hold the slot, so what is
// behind it can change. It is safe for concurrent use.
type Slot struct {
	mu      sync.Mutex
	serving *Generation
	// changed is closed when another generation serves.
	changed chan struct{}
	// first is closed, once, when the first generation serves.
	first chan struct{}
	once  sync.Once
	// recorder is set before the slot is used; it may be nil.
	recorder Recorder
}

// Recorder sees the ops of whatever generation serves.
type Recorder interface {
	// Begin is called before an op. The op runs with the context that it
	// returns; the function gets the outcome: a code with the encoded response
	// or error detail, or an error.
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

// Changed returns a channel that is closed when the next generation serves.
func (s *Slot) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Serving returns the generation that serves, or nil.
func (s *Slot) Serving() *Generation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.serving
}

// WaitServing returns when a generation serves, or with the context's error.
func (s *Slot) WaitServing(ctx context.Context) error {
	select {
	case <-s.first:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for a provider: %w", ctx.Err())
	}
}

// Swap is Serve for who needs the generation before no more: it is returned
// and closes by itself after the last of its ops. It returns nil the first time.
func (s *Slot) Swap(ctx context.Context, next *Generation) (old *Generation) {
	if old = s.Serve(next); old != nil {
		old.Release(ctx)
	}
	return old
}

// Serve lets a generation serve. Ops under way end on the one before, which is
// returned: it belongs to the caller now, as the new one belonged to him until
// now. It returns nil the first time.
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

// Invoke runs one op in the serving generation, within the op's time. An
// answer of the guest other than success is an *abi.Error; anything else that
// goes wrong is another error.
func (s *Slot) Invoke(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return s.invoke(ctx, op, req, resp, (*pool).call)
}

// InvokeFresh is Invoke in an instance that is made for this op and thrown
// away after it, so that nothing an earlier op left in the guest's memory can
// speak in the answer.
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
	var answer *abi.Error
	if err == nil || errors.As(err, &answer) {
		return err
	}
	return fmt.Errorf("%s: %w", op, err)
}

// Instances is how many ops can run at the same time in the serving
// generation, or 0 before the first one serves.
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

// ProviderName is what the serving generation calls its cloud, or "".
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

// ConfigDigest is that of the serving generation, or "". Of a private configuration
// it must not be told.
func (s *Slot) ConfigDigest() string {
	if g := s.Serving(); g != nil {
		return g.Digests().Config
	}
	return ""
}

// TickPeriod is that of the serving generation, 0 for never.
func (s *Slot) TickPeriod() time.Duration {
	if g := s.Serving(); g != nil {
		return g.TickPeriod()
	}
	return 0
}
