package main

import (
	"fmt"
	"sync"

	"github.com/go-logr/logr"
)

// forwardFault keeps the node's message about a failed port-forward connection.
// client-go only logs it, along with every closed connection; the caller sees
// EOF. It is safe for concurrent use.
type forwardFault struct {
	mu  sync.Mutex
	err error
}

// unforwarded is client-go's log message when the node could not reach the port.
const unforwarded = "An error occurred forwarding"

func (*forwardFault) Init(logr.RuntimeInfo)            {}
func (*forwardFault) Enabled(int) bool                 { return false }
func (*forwardFault) Info(int, string, ...any)         {}
func (f *forwardFault) WithValues(...any) logr.LogSink { return f }
func (f *forwardFault) WithName(string) logr.LogSink   { return f }
func (f *forwardFault) Error(err error, msg string, _ ...any) {
	if msg != unforwarded {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// last is the latest fault, nil if there was none.
func (f *forwardFault) last() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		return nil
	}
	return fmt.Errorf("the node does not reach the manager's port; does the manager start? port-forward: %w", f.err)
}
