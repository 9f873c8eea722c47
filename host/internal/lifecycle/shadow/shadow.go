// Package shadow asks a new generation of a provider the serving generation's questions, and
// compares the answers. A Recorder keeps recent read-only ops with their host calls. A
// Rehearsal repeats them, and adds questions about other objects: host calls are answered
// from the record if possible, and otherwise for real, through a gate that suppresses writes
// (package writegate). Host wraps the real host calls and does both.
package shadow

import (
	"context"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// HostCaller answers host calls; engine.Host is one.
type HostCaller interface {
	HostCall(ctx context.Context, name string, request []byte) (abi.Code, []byte)
}

// Host records the host calls of an op that a Recorder records, and passes them on. For a
// rehearsed op it answers from the record, and passes unrecorded calls on. All other calls
// pass. It is safe for concurrent use when next is.
func Host(next HostCaller) HostCaller { return host{next} }

type host struct{ next HostCaller }

func (h host) HostCall(ctx context.Context, name string, request []byte) (abi.Code, []byte) {
	switch op := ctx.Value(contextKey{}).(type) {
	case *player:
		return op.hostCall(ctx, h.next, name, request)
	case *recording:
		code, result := h.next.HostCall(ctx, name, request)
		op.add(name, request, code, result)
		return code, result
	}
	return h.next.HostCall(ctx, name, request)
}

// contextKey is the key of an op's *recording or *player.
type contextKey struct{}
