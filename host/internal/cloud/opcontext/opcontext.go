// Package opcontext carries the object of an op from the provider adapter to the
// host calls that the guest makes during the op: the object for events, and the
// nodes that the nodes host call pages through. The packages between them stay
// free of Kubernetes types. It also has the interface of what runs an op.
package opcontext

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// SnapshotID is the number of an op's node snapshot (abi.NodeSnapshot). An op
// has at most one.
const SnapshotID = 1

// Op is what one op is about. The receiver must treat everything as read-only.
type Op struct {
	// Object is the Service, Node or PersistentVolume of the op, or nil.
	Object *corev1.ObjectReference
	// Nodes are the nodes of the op, or nil.
	Nodes []*corev1.Node
	// Serial names what two ops must never work on at the same time, e.g.
	// "Service default/web"; empty when the op may run beside any other.
	Serial string
	// Name and Generation are what runs, for the record of its calls: set when the op goes to a guest, 0 before. Generation is
	// the number of takeovers.
	Name       abi.Op
	Generation int64
}

type key struct{}

// NewContext returns a context that carries op.
func NewContext(ctx context.Context, op Op) context.Context {
	return context.WithValue(ctx, key{}, op)
}

// FromContext returns the op of the context, or the zero Op.
func FromContext(ctx context.Context) Op {
	op, _ := ctx.Value(key{}).(Op)
	return op
}
