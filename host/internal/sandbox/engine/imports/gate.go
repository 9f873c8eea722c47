package imports

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Gate admits one op at a time to an instance, and none after a failure or Close. The zero
// value is open.
type Gate struct {
	state atomic.Int32
}

const (
	gateOpen int32 = iota
	gateBusy
	gateFailed
	gateClosed
)

// Enter starts an op with a request of this size. After an error no op has started, and
// Leave must not be called.
func (g *Gate) Enter(requestBytes int) error {
	if requestBytes > abi.MaxRequestBytes {
		return fmt.Errorf("a request of %d bytes, at most %d are allowed", requestBytes, abi.MaxRequestBytes)
	}
	// Invariant G6 (host/SECURITY.md): an instance runs one op at a time, also during a host
	// call.
	if g.state.CompareAndSwap(gateOpen, gateBusy) {
		return nil
	}
	switch g.state.Load() {
	case gateFailed:
		return errors.New("the instance has failed before and cannot be used again")
	case gateClosed:
		return errors.New("the instance is closed")
	}
	return errors.New("the instance already runs an op: it takes one at a time")
}

// Leave ends the op. After a failed one the instance stays shut: no other op may see its
// unfinished state.
func (g *Gate) Leave(failed bool) {
	// Invariant M7 (host/SECURITY.md): a failed op shuts the instance for good.
	if failed {
		g.state.Store(gateFailed)
		return
	}
	g.state.Store(gateOpen)
}

// Close shuts the gate for good. It returns false if it was closed before, and an error
// during an op, whose memory must stay.
func (g *Gate) Close() (first bool, err error) {
	for {
		state := g.state.Load()
		switch {
		case state == gateBusy:
			return false, errors.New("closing an instance in which an op runs")
		case state == gateClosed:
			return false, nil
		case g.state.CompareAndSwap(state, gateClosed):
			return true, nil
		}
	}
}

// Closed reports whether Close was called.
func (g *Gate) Closed() bool { return g.state.Load() == gateClosed }
