// Package writegate marks an op that must change nothing outside of this process. The caller
// of the op puts a Gate into its context. Every writer (package egress for requests, package
// hostfunc for the store, objects, Events and the cache) asks the gate first.
package writegate

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Gate suppresses and counts the writes of one op. A nil Gate lets all pass. It is safe for
// concurrent use.
type Gate struct {
	requests, refused atomic.Int64
	once              sync.Once
	first             string
}

type key struct{}

// NewContext returns a context whose op writes nothing; with a nil Gate, writes pass: the
// manager's own requests for the op, to log in, are sent.
func NewContext(ctx context.Context, g *Gate) context.Context {
	if g == nil && FromContext(ctx) == nil {
		return ctx
	}
	return context.WithValue(ctx, key{}, g)
}

// FromContext returns the gate of the op, or nil.
func FromContext(ctx context.Context) *Gate {
	g, _ := ctx.Value(key{}).(*Gate)
	return g
}

// Refuse counts a write, and returns the error of its refusal. what names the write in one
// line without secrets, with the remedy.
func (g *Gate) Refuse(what string) *abi.Error {
	g.once.Do(func() { g.first = what })
	g.refused.Add(1)
	return &abi.Error{Code: abi.CodeDenied, Message: "nothing is changed while answers are only compared: " + what}
}

// Drop counts a write that is dropped although the guest is told that it was made: no answer
// depends on it.
func (g *Gate) Drop() { g.refused.Add(1) }

// Sent counts a request that leaves the process.
func (g *Gate) Sent() {
	if g != nil {
		g.requests.Add(1)
	}
}

// Counts returns the numbers of sent requests and of suppressed writes.
func (g *Gate) Counts() (requests, refused int) {
	return int(g.requests.Load()), int(g.refused.Load())
}

// Refused returns the first refused write, or "". It is called after the op.
func (g *Gate) Refused() string {
	g.once.Do(func() {})
	return g.first
}
