package wazero

import (
	"bytes"
	"context"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/engine"
)

// hostModule is a module of host functions. Guests import from it by name, so
// every function is always there; which of them a guest may import is checked
// before it is compiled, and what they answer is the host's business.
type hostModule struct {
	name      string
	functions []hostFunction
}

type hostFunction struct {
	name            string
	params, results []api.ValueType
	run             api.GoModuleFunction
}

const (
	i32 = api.ValueTypeI32
	i64 = api.ValueTypeI64
)

func hostModules() []hostModule {
	three, two, one64 := []api.ValueType{i32, i32, i32}, []api.ValueType{i32, i32}, []api.ValueType{i64}
	functions := []hostFunction{
		{abi.ImportReqRead, three, []api.ValueType{i32}, api.GoModuleFunc(reqRead)},
		{abi.ImportRespWrite, two, nil, api.GoModuleFunc(respWrite)},
		{abi.ImportErrWrite, two, nil, api.GoModuleFunc(errWrite)},
		{abi.ImportResultRead, three, []api.ValueType{i32}, api.GoModuleFunc(resultRead)},
		{abi.ImportNow, nil, one64, api.GoModuleFunc(now)},
		{abi.ImportDeadline, nil, one64, api.GoModuleFunc(deadline)},
		{abi.ImportLog, two, one64, hostCall(abi.ImportLog)},
	}
	for _, name := range abi.Capabilities() {
		functions = append(functions, hostFunction{name, two, one64, hostCall(name)})
	}
	return []hostModule{
		{abi.ImportModule, functions},
		{engine.RefuelModule, []hostFunction{{engine.RefuelName, one64, one64, api.GoModuleFunc(refuel)}}},
	}
}

func (h hostModule) instantiate(ctx context.Context, r wazero.Runtime) error {
	builder := r.NewHostModuleBuilder(h.name)
	for _, f := range h.functions {
		builder.NewFunctionBuilder().WithGoModuleFunction(f.run, f.params, f.results).Export(f.name)
	}
	_, err := builder.Instantiate(ctx)
	return err
}

// view returns the guest's memory at ptr. It is valid until the guest runs
// again, and must be copied before.
func view(guest api.Module, what string, ptr, size uint32, limit int) []byte {
	if uint64(size) > uint64(limit) {
		panic(broken("%s of %d bytes, at most %d are allowed", what, size, limit))
	}
	data, ok := guest.Memory().Read(ptr, size)
	if !ok {
		panic(broken("%s of %d bytes at %d is outside of its memory", what, size, ptr))
	}
	return data
}

// writeMemory copies a part of src to the guest and returns how much it was.
// The whole buffer must be the guest's, also where less is written.
func writeMemory(guest api.Module, what string, src []byte, off, ptr, size uint32) uint64 {
	buffer, ok := guest.Memory().Read(ptr, size)
	if !ok {
		panic(broken("%s of %d bytes to %d is outside of its memory", what, size, ptr))
	}
	return uint64(copy(buffer, copied(src, off, size)))
}

func inOp(ctx context.Context, what string) *call {
	c := callOf(ctx)
	if !c.inOp {
		panic(broken("%s outside of an op", what))
	}
	return c
}

func reqRead(ctx context.Context, guest api.Module, stack []uint64) {
	c := inOp(ctx, abi.ImportReqRead)
	stack[0] = writeMemory(guest, abi.ImportReqRead, c.request, uint32(stack[0]), uint32(stack[1]), uint32(stack[2]))
}

func resultRead(ctx context.Context, guest api.Module, stack []uint64) {
	c := inOp(ctx, abi.ImportResultRead)
	stack[0] = writeMemory(guest, abi.ImportResultRead, c.result, uint32(stack[0]), uint32(stack[1]), uint32(stack[2]))
}

func respWrite(ctx context.Context, guest api.Module, stack []uint64) {
	c := inOp(ctx, abi.ImportRespWrite)
	if c.response != nil {
		panic(broken("a second %s in one op", abi.ImportRespWrite))
	}
	data := view(guest, abi.ImportRespWrite, uint32(stack[0]), uint32(stack[1]), abi.MaxResponseBytes)
	c.response = append(make([]byte, 0, len(data)+1), data...) // never nil
}

func errWrite(ctx context.Context, guest api.Module, stack []uint64) {
	c := inOp(ctx, abi.ImportErrWrite)
	if c.detail != nil {
		panic(broken("a second %s in one op", abi.ImportErrWrite))
	}
	const detailBytes = 2 * abi.MaxErrorMessageBytes
	data := view(guest, abi.ImportErrWrite, uint32(stack[0]), uint32(stack[1]), detailBytes)
	c.detail = append(make([]byte, 0, len(data)+1), data...)
}

func now(_ context.Context, _ api.Module, stack []uint64) {
	stack[0] = uint64(time.Now().UnixNano())
}

func deadline(ctx context.Context, _ api.Module, stack []uint64) {
	inOp(ctx, abi.ImportDeadline)
	left := time.Duration(1<<63 - 1)
	if end, ok := ctx.Deadline(); ok {
		left = max(0, time.Until(end))
	}
	stack[0] = uint64(left)
}

// hostCall is an import of the shape (ptr, len) -> status << 32 | length.
func hostCall(name string) api.GoModuleFunction {
	return api.GoModuleFunc(func(ctx context.Context, guest api.Module, stack []uint64) {
		c := callOf(ctx)
		if name != abi.ImportLog {
			c = inOp(ctx, name)
		}
		checkTime(ctx)
		request := bytes.Clone(view(guest, name, uint32(stack[0]), uint32(stack[1]), abi.MaxHostCallBytes))
		code, result := c.host.HostCall(ctx, name, request)
		if len(result) > abi.MaxHostResultBytes {
			code, result = abi.CodeTooLarge, nil
		}
		c.result = result
		stack[0] = packStatus(code, len(result))
	})
}

// refuel ends the guest when its time is over.
func refuel(ctx context.Context, _ api.Module, stack []uint64) {
	checkTime(ctx)
	fuel := int64(stack[0])
	tanks := (-fuel + engine.Tank - 1) / engine.Tank
	callOf(ctx).fuel += tanks * engine.Tank
	stack[0] = uint64(fuel + tanks*engine.Tank)
}

// checkTime ends the guest when its time is over. It asks the clock as well:
// timers are late when every processor is busy with guests.
func checkTime(ctx context.Context) {
	err := ctx.Err()
	if end, ok := ctx.Deadline(); err == nil && ok && !time.Now().Before(end) {
		err = context.DeadlineExceeded
	}
	if err != nil {
		panic(&outOfTime{err})
	}
}
