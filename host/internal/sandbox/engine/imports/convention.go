package imports

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

// view returns the guest's memory at ptr, to be copied before the guest runs again.
func view(memory Memory, what string, ptr, size uint32, limit int) ([]byte, error) {
	if uint64(size) > uint64(limit) {
		return nil, broken("%s of %d bytes, at most %d are allowed", what, size, limit)
	}
	// Invariant G5 (host/SECURITY.md): every guest pointer goes through Memory.Read, which knows
	// the memory's end.
	data, ok := memory.Read(ptr, size)
	if !ok {
		return nil, broken("%s of %d bytes at %d is outside of its memory", what, size, ptr)
	}
	return data, nil
}

// writeMemory copies src from off on to the guest and returns the number of bytes. The whole
// buffer must be the guest's, even if less is written.
func writeMemory(memory Memory, what string, src []byte, stack []uint64) error {
	off, ptr, size := uint32(stack[0]), uint32(stack[1]), uint32(stack[2])
	buffer, ok := memory.Read(ptr, size)
	if !ok {
		return broken("%s of %d bytes to %d is outside of its memory", what, size, ptr)
	}
	stack[0] = 0
	if uint64(off) < uint64(len(src)) {
		stack[0] = uint64(copy(buffer, src[off:]))
	}
	return nil
}

func (c *Call) mustBeInOp(what string) error {
	if !c.inOp {
		return broken("%s outside of an op", what)
	}
	return nil
}

func reqRead(_ context.Context, c *Call, memory Memory, stack []uint64) error {
	if err := c.mustBeInOp(abi.ImportReqRead); err != nil {
		return err
	}
	return writeMemory(memory, abi.ImportReqRead, c.request, stack)
}

func resultRead(_ context.Context, c *Call, memory Memory, stack []uint64) error {
	if err := c.mustBeInOp(abi.ImportResultRead); err != nil {
		return err
	}
	return writeMemory(memory, abi.ImportResultRead, c.result, stack)
}

func respWrite(_ context.Context, c *Call, memory Memory, stack []uint64) error {
	return c.once(&c.response, memory, abi.ImportRespWrite, stack, abi.MaxResponseBytes)
}

func errWrite(_ context.Context, c *Call, memory Memory, stack []uint64) error {
	return c.once(&c.detail, memory, abi.ImportErrWrite, stack, 2*abi.MaxErrorMessageBytes)
}

// once accepts a value that a guest may hand over once per op.
func (c *Call) once(to *[]byte, memory Memory, what string, stack []uint64, limit int) error {
	if err := c.mustBeInOp(what); err != nil {
		return err
	}
	if *to != nil {
		return broken("a second %s in one op", what)
	}
	data, err := view(memory, what, uint32(stack[0]), uint32(stack[1]), limit)
	if err != nil {
		return err
	}
	*to = append(make([]byte, 0, len(data)+1), data...) // never nil
	return nil
}

func now(_ context.Context, _ *Call, _ Memory, stack []uint64) error {
	stack[0] = uint64(time.Now().UnixNano())
	return nil
}

func deadline(ctx context.Context, c *Call, _ Memory, stack []uint64) error {
	if err := c.mustBeInOp(abi.ImportDeadline); err != nil {
		return err
	}
	left := time.Duration(math.MaxInt64)
	if end, ok := ctx.Deadline(); ok {
		left = max(0, time.Until(end))
	}
	stack[0] = uint64(left)
	return nil
}

// hostCall is an import of the shape (ptr, len) -> status << 32 | length. After the deadline
// it does not begin. A late host call still ends normally: the guest may only have to report
// its end.
func hostCall(name string) runFunc {
	return func(ctx context.Context, c *Call, memory Memory, stack []uint64) error {
		if name != abi.ImportLog {
			if err := c.mustBeInOp(name); err != nil {
				return err
			}
		}
		data, err := view(memory, name, uint32(stack[0]), uint32(stack[1]), abi.MaxHostCallBytes)
		if err != nil {
			return err
		}
		c.dropResult() // before the next result
		code, result, err := c.ask(ctx, name, data)
		if err != nil {
			return err
		}
		// A host call that failed for the deadline has no answer: the guest ends here, with that
		// reason.
		if err := checkTime(ctx); err != nil {
			return err
		}
		runtime.Gosched() // as in refuel: a loop of host calls rarely runs out of fuel
		if err := c.keepResult(ctx, result); err != nil {
			return err
		}
		stack[0] = uint64(code)<<32 | uint64(uint32(len(result)))
		return nil
	}
}

// ask hands a copy of the request to the host, if its size is allowed for that host call and
// there is room for it.
func (c *Call) ask(ctx context.Context, name string, request []byte) (abi.Code, []byte, error) {
	// Invariant M9 (host/SECURITY.md): the size is checked before the request is copied.
	if most := abi.MaxRequestOf(name); len(request) > most {
		return abi.CodeTooLarge, detailOf("%s: the request has %d bytes, the limit is %d", name, len(request), most), nil
	}
	held, err := c.guest.requests.hold(ctx, len(request))
	if err != nil {
		return 0, nil, err
	}
	defer c.guest.requests.release(held)
	// Invariant G6 (host/SECURITY.md): the host gets a copy, out of the guest's reach.
	code, result := c.guest.config.Host.HostCall(ctx, name, bytes.Clone(request))
	if len(result) > abi.MaxHostResultBytes {
		code, result = abi.CodeTooLarge, detailOf("%s: the result has %d bytes, the limit is %d", name, len(result), abi.MaxHostResultBytes)
	}
	return code, result, nil
}

// detailOf encodes an error of this package. It is short.
func detailOf(format string, args ...any) []byte {
	data, _ := wire.Marshal(&abi.ErrorDetail{Message: fmt.Sprintf(format, args...)}) // without it the code suffices
	return data
}

// refuel ends the guest after its deadline.
func refuel(ctx context.Context, c *Call, _ Memory, stack []uint64) error {
	// Invariant M1 (host/SECURITY.md): after its deadline a guest gets no fuel.
	if err := checkTime(ctx); err != nil {
		return err
	}
	fuel := int64(stack[0])
	if fuel == engine.FuelCallDepth {
		return &End{text: "the guest trapped: wasm error: stack overflow: its calls nest deeper than is allowed"}
	}
	runtime.Gosched() // guests on all processors must not starve other goroutines
	tanks := (-fuel + engine.Tank - 1) / engine.Tank
	c.fuel += tanks * engine.Tank
	stack[0] = uint64(fuel + tanks*engine.Tank)
	return nil
}
