// Package shadow repeats recent ops of the serving generation of a provider with
// a new generation, and compares the answers. A Recorder keeps recent read-only
// ops with their host calls. Replay repeats them, with the host calls answered
// from the record. Host stands before the real host calls and does both. Nothing
// of a replayed op leaves the process: of the real host calls it has only the
// reads of kube, which are of the manager's memory.
package shadow

import (
	"context"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// HostCaller answers host calls; engine.Host is one.
type HostCaller interface {
	HostCall(ctx context.Context, name string, request []byte) (abi.Code, []byte)
}

// Host records the host calls of an op that a Recorder records, and passes
// them on; it answers those of a replayed op from its sample, and passes none
// on but reads of kube. All others it passes on. Position is how many changes a
// cursor of kube is behind. It is safe for concurrent use when next is.
func Host(next HostCaller, position func(cursor []byte) uint64) HostCaller {
	return host{next, position}
}

type host struct {
	next     HostCaller
	position func(cursor []byte) uint64
}

func (h host) HostCall(ctx context.Context, name string, request []byte) (abi.Code, []byte) {
	switch op := ctx.Value(contextKey{}).(type) {
	// Invariant R7 (host/SECURITY.md): a replayed op reaches no host call that leaves the process.
	case *player:
		if q, reads := questionOf(name, request); reads {
			code, result := h.next.HostCall(ctx, name, request)
			op.read(q, code, h.positionOf(code, result))
			return code, result
		}
		return op.hostCall(name, request)
	case *recording:
		code, result := h.next.HostCall(ctx, name, request)
		switch q, reads := questionOf(name, request); {
		case reads:
			op.add(name, []byte(q), code, h.positionOf(code, result))
		case name != abi.CapabilityKube:
			op.add(name, request, code, result)
		}
		return code, result
	}
	return h.next.HostCall(ctx, name, request)
}

// contextKey has the *recording or the *player of an op as its value.
type contextKey struct{}
