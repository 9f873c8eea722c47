package provider

import (
	"context"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Invoker runs ops in the guest that serves. It is safe for concurrent use and
// its answers may come from another generation at every call.
type Invoker interface {
	// Invoke runs one op and decodes the answer into resp. An answer with
	// another code than abi.CodeOK is an *abi.Error (errors.As); a trap, a
	// timeout or an undecodable answer is any other error. resp is meaningful
	// only when the error is nil.
	Invoke(ctx context.Context, op abi.Op, req, resp abi.Message) error
	// Supports reports whether the serving generation has the op.
	Supports(op abi.Op) bool
	// ProviderName is what the serving generation calls itself, or "".
	ProviderName() string
	// HasClusterID is what the serving generation says of its configuration.
	HasClusterID() bool
}

// FreshInvoker is an Invoker that can ask a fresh instance of the guest, one
// without the memory of earlier ops.
type FreshInvoker interface {
	Invoker
	// InvokeFresh is Invoke in an instance that is made for this op and thrown
	// away after it.
	InvokeFresh(ctx context.Context, op abi.Op, req, resp abi.Message) error
}
