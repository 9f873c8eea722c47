// Package opcontext carries the object of an op from the provider adapter to the host calls
// that the guest makes during the op: the object for Events, and the nodes through which the
// nodes host call pages. The packages between them stay free of Kubernetes types. It also
// has the interface of an op's executor.
package opcontext

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// SnapshotID is the number of an op's node snapshot (abi.NodeSnapshot). An op
// has at most one.
const SnapshotID = 1

// Op describes one op. The receiver must treat everything as read-only.
type Op struct {
	// Object is the Service, Node or PersistentVolume of the op, or nil.
	Object *corev1.ObjectReference
	// Nodes are the nodes of the op, or nil.
	Nodes []*corev1.Node
	// Serial is the key on which ops must not run at the same time, e.g. "Service default/web";
	// empty for an op without restriction.
	Serial string
	// Name and Generation identify the running op for the record of its calls: set when the op goes to a
	// guest, 0 before. Generation is the number of takeovers.
	Name       abi.Op
	Generation int64
}

type key struct{}

type patientKey struct{}

type passKey struct{}

// WithPatience returns a context for a caller that waits for the end of its op instead of
// returning for it.
func WithPatience(ctx context.Context) context.Context {
	return context.WithValue(ctx, patientKey{}, true)
}

// IsPatient reports whether the context is one of WithPatience.
func IsPatient(ctx context.Context) bool { return ctx.Value(patientKey{}) != nil }

// InPass returns a context of WithPatience for one of many calls that its caller awaits
// together: a call that takes unusually long must not hold up the others.
func InPass(ctx context.Context) context.Context {
	return context.WithValue(WithPatience(ctx), passKey{}, true)
}

// IsInPass reports whether the context is one of InPass.
func IsInPass(ctx context.Context) bool { return ctx.Value(passKey{}) != nil }

// carrying is a context with an op: one allocation, where context.WithValue needs two.
type carrying struct {
	context.Context
	op Op
}

func (c *carrying) Value(k any) any {
	if _, ok := k.(key); ok {
		return &c.op
	}
	return c.Context.Value(k)
}

// NewContext returns a context that carries op.
func NewContext(ctx context.Context, op Op) context.Context { return &carrying{ctx, op} }

// FromContext returns the op of the context, or the zero Op.
func FromContext(ctx context.Context) Op {
	if op, ok := ctx.Value(key{}).(*Op); ok {
		return *op
	}
	return Op{}
}
