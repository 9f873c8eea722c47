// Package shadow asks a new generation of a provider what the serving one was
// asked lately, and compares the answers. A Recorder keeps recent read-only ops
// with their host calls; Replay asks them again, with the host calls answered
// from the record; Host stands before the real host calls and does both. Of a
// replayed op nothing leaves the process: the real host calls never see it.
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
// them on; it answers those of a replayed op from its sample, and never passes
// them on. All others it passes on. It is safe for concurrent use when next is.
func Host(next HostCaller) HostCaller { return host{next} }

type host struct{ next HostCaller }

func (h host) HostCall(ctx context.Context, name string, request []byte) (abi.Code, []byte) {
	switch op := ctx.Value(contextKey{}).(type) {
	// Invariant R7 (host/SECURITY.md): a replayed op has no way to next.
	case *player:
		return op.hostCall(name, request)
	case *recording:
		code, result := h.next.HostCall(ctx, name, request)
		op.add(name, request, code, result)
		return code, result
	}
	return h.next.HostCall(ctx, name, request)
}

// contextKey has the *recording or the *player of an op as its value.
type contextKey struct{}

// readOnly reports whether an op changes nothing.
func readOnly(op abi.Op) bool { return newResponse(op) != nil }

// newResponse returns an empty response of a read-only op, or nil.
func newResponse(op abi.Op) abi.Message {
	switch op {
	case abi.OpInstanceExists:
		return &abi.InstanceExistsResponse{}
	case abi.OpInstanceShutdown:
		return &abi.InstanceShutdownResponse{}
	case abi.OpInstanceMetadata:
		return &abi.InstanceMetadataResponse{}
	case abi.OpListInstances:
		return &abi.ListInstancesResponse{}
	case abi.OpLoadBalancerGet:
		return &abi.LoadBalancerGetResponse{}
	case abi.OpLoadBalancerName:
		return &abi.LoadBalancerNameResponse{}
	case abi.OpRouteList:
		return &abi.RouteListResponse{}
	case abi.OpVolumeLabels:
		return &abi.VolumeLabelsResponse{}
	}
	return nil
}
