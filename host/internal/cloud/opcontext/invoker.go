package opcontext

import (
	"context"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// InvokeFunc runs one op and decodes the answer into resp. An answer with another code than
// abi.CodeOK is an *abi.Error (errors.As); a trap, a timeout or an undecodable answer is any
// other error. resp is meaningful only when the error is nil.
type InvokeFunc func(ctx context.Context, op abi.Op, req, resp abi.Message) error

// Invoker runs ops in the serving guest; plugin.Slot is one, and so are its wrappers. It is
// safe for concurrent use, and each call may reach another generation.
type Invoker interface {
	// Invoke is an InvokeFunc.
	Invoke(ctx context.Context, op abi.Op, req, resp abi.Message) error
	// InvokeFresh is Invoke in an instance that exists for this op only: it has no memory of
	// earlier ops.
	InvokeFresh(ctx context.Context, op abi.Op, req, resp abi.Message) error
	// Supports reports whether the serving generation has the op.
	Supports(op abi.Op) bool
	// ProviderName is the serving generation's own name, or "".
	ProviderName() string
	// HasClusterID is what the serving generation says of its configuration.
	HasClusterID() bool
}
