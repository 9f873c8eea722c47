package opcontext

import (
	"context"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// InvokeFunc runs one op and decodes the answer into resp. An answer with
// another code than abi.CodeOK is an *abi.Error (errors.As); a trap, a timeout
// or an undecodable answer is any other error. resp is meaningful only when the
// error is nil.
type InvokeFunc func(ctx context.Context, op abi.Op, req, resp abi.Message) error

// Invoker runs ops in the guest that serves; plugin.Slot is one, and so is what
// stands before it. It is safe for concurrent use and its answers may come from
// another generation at every call.
type Invoker interface {
	// Invoke is an InvokeFunc.
	Invoke(ctx context.Context, op abi.Op, req, resp abi.Message) error
	// InvokeFresh is Invoke in an instance that is made for this op and thrown
	// away after it: it has no memory of earlier ops.
	InvokeFresh(ctx context.Context, op abi.Op, req, resp abi.Message) error
	// Supports reports whether the serving generation has the op.
	Supports(op abi.Op) bool
	// ProviderName is what the serving generation calls itself, or "".
	ProviderName() string
	// HasClusterID is what the serving generation says of its configuration.
	HasClusterID() bool
}
