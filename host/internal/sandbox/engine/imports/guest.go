package imports

import (
	"context"

	"golang.org/x/sync/semaphore"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

// Bounds of what the host holds for the host calls of all instances of a
// module together: one request at its limit while it is answered, and one
// result at its limit until the next host call or the end of the op. Who comes
// when there is no room waits. What is small is not counted.
const (
	maxHeldRequests = abi.MaxHostCallBytes
	maxHeldResults  = abi.MaxHostResultBytes
	smallBytes      = 64 << 10
)

// Guest is what the instances of one module have in common. It is safe for
// concurrent use.
type Guest struct {
	config            engine.ModuleConfig
	requests, results room
}

// NewGuest returns what the instances of a module with this configuration
// share.
func NewGuest(config engine.ModuleConfig) *Guest {
	return &Guest{config: config, requests: newRoom(maxHeldRequests), results: newRoom(maxHeldResults)}
}

// room bounds bytes that are held.
type room struct{ left *semaphore.Weighted }

func newRoom(most int64) room { return room{semaphore.NewWeighted(most)} }

// hold waits until there is room for so many bytes, and takes it. The error
// ends the guest: its time is over.
func (r room) hold(ctx context.Context, size int) (held int64, err error) {
	if size <= smallBytes {
		return 0, nil
	}
	// Invariant M9 (host/SECURITY.md): what is large is held only with a place in the module's
	// room.
	if err := r.left.Acquire(ctx, int64(size)); err != nil {
		return 0, outOfTime(err)
	}
	return int64(size), nil
}

func (r room) release(held int64) {
	if held > 0 {
		r.left.Release(held)
	}
}

// keepResult keeps a result for result_read. The one before is gone, so that
// nobody waits for room while holding some.
func (c *Call) keepResult(ctx context.Context, result []byte) error {
	held, err := c.guest.results.hold(ctx, len(result))
	if err != nil {
		return err
	}
	c.result, c.held = result, held
	return nil
}

func (c *Call) dropResult() {
	if c.guest != nil {
		c.guest.results.release(c.held)
	}
	c.result, c.held = nil, 0
}
