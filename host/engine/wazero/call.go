package wazero

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero/sys"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/engine"
)

// call is the state of one op in one instance.
type call struct {
	host engine.Host
	// inOp is false in _initialize, where there is no request to read and
	// nothing to answer.
	inOp     bool
	request  []byte
	result   []byte // of the last host call
	response []byte
	detail   []byte
	fuel     int64
}

// callContext hands the call to the host functions, which the runtime gives
// the context of the call.
type callContext struct {
	context.Context
	call *call
}

type callKey struct{}

func (c *callContext) Value(key any) any {
	if _, ok := key.(callKey); ok {
		return c.call
	}
	return c.Context.Value(key)
}

func callOf(ctx context.Context) *call {
	return ctx.Value(callKey{}).(*call)
}

// brokenConvention is what a host function panics with when the guest breaks
// the calling convention; the runtime turns it into the error of the call.
type brokenConvention struct{ what string }

func (e *brokenConvention) Error() string { return e.what }

func broken(format string, args ...any) *brokenConvention {
	return &brokenConvention{what: "the guest broke the calling convention: " + fmt.Sprintf(format, args...)}
}

// outOfTime is what a host function panics with when the op's time is over.
type outOfTime struct{ err error }

func (e *outOfTime) Error() string { return "the guest was ended: " + e.err.Error() }

func (e *outOfTime) Unwrap() error { return e.err }

// oneLine makes an error of the runtime fit for a log line and an Event: the
// runtime appends a stack trace. Where the context is over, that is the cause.
func oneLine(ctx context.Context, err error) error {
	var late *outOfTime
	var exit *sys.ExitError
	var convention *brokenConvention
	switch {
	case errors.As(err, &late):
		return late
	case ctx.Err() != nil:
		return &outOfTime{ctx.Err()}
	case errors.As(err, &exit):
		return fmt.Errorf("the guest exited with status %d", exit.ExitCode())
	case errors.As(err, &convention):
		return convention
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return fmt.Errorf("the guest trapped: %s", line)
}

// copied returns the part of src from off on, at most size bytes.
func copied(src []byte, off, size uint32) []byte {
	if uint64(off) >= uint64(len(src)) {
		return nil
	}
	return src[off:min(uint64(off)+uint64(size), uint64(len(src)))]
}

// packStatus is the result of a host call.
func packStatus(code abi.Code, length int) uint64 {
	return uint64(code)<<32 | uint64(uint32(length))
}
