package imports

import (
	"context"

	"golang.org/x/sync/semaphore"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

// Bounds of the memory for the host calls of a module's instances together: one request at
// its limit while it is answered, and one result at its limit until the next host call or
// the end of the op. Calls wait for room. Small ones are not counted.
const (
	maxHeldRequests = abi.MaxHostCallBytes
	maxHeldResults  = abi.MaxHostResultBytes
	smallBytes      = 64 << 10
)

// Guest is the shared state of one module's instances. It is safe for concurrent use.
type Guest struct {
	config            engine.ModuleConfig
	requests, results room
}

// NewGuest returns the shared state of a module's instances with this configuration.
func NewGuest(config engine.ModuleConfig) *Guest {
	return &Guest{config: config, requests: newRoom(maxHeldRequests), results: newRoom(maxHeldResults)}
}

// room bounds held bytes.
type room struct{ left *semaphore.Weighted }

func newRoom(most int64) room { return room{semaphore.NewWeighted(most)} }

// hold waits for room of that size, and takes it. The error ends the guest: its time is
// over.
func (r room) hold(ctx context.Context, size int) (held int64, err error) {
	if size <= smallBytes {
		return 0, nil
	}
	// Invariant M9 (host/SECURITY.md): large data is held only within the module's room.
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

// keepResult keeps a result for result_read. The previous one is released first, so that no
// call waits for room while holding some.
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
