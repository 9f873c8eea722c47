package imports

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"
)

// wasiModule is the module name of WASI preview 1.
const wasiModule = "wasi_snapshot_preview1"

// The used errno of WASI preview 1.
const (
	errnoSuccess = 0
	errnoBadf    = 8
	errnoFault   = 21
	errnoInval   = 28
	errnoIO      = 29
	errnoNosys   = 52
)

// Bounds of one WASI call. A guest that needs more calls again, and is metered in between.
//
// Invariant M23 (host/SECURITY.md): one call copies no more, whatever it asks for.
const (
	maxIovecs        = 1024
	maxWriteBytes    = 64 << 10
	maxRandomBytes   = 1 << 20
	maxSubscriptions = 64
)

// wasiFunc is a function that returns an errno. An error ends the guest.
type wasiFunc func(ctx context.Context, c *Call, memory Memory, stack []uint64) (errno uint64, err error)

// wasiFunctions are all functions of preview 1. Those neither implemented nor about files
// answer "not supported".
func wasiFunctions() []Function {
	own := map[string]wasiFunc{
		"args_get": argsGet, "args_sizes_get": argsSizesGet,
		"environ_get": answer(errnoSuccess), "environ_sizes_get": environSizesGet,
		"clock_res_get": clockResGet, "clock_time_get": clockTimeGet(time.Now()),
		"fd_write": fdWrite, "fd_fdstat_get": fdStatGet,
		"poll_oneoff": pollOneoff, "random_get": randomGet, "sched_yield": schedYield,
	}
	// Invariant G4 (host/SECURITY.md): no function of WASI reaches a file, a socket or the
	// environment. Only the standard output and error are open, for fd_write alone, and nothing
	// is preopened.
	for _, name := range []string{
		"fd_close", "fd_read", "fd_seek", "fd_tell", "fd_pread", "fd_pwrite", "fd_sync", "fd_datasync",
		"fd_prestat_get", "fd_prestat_dir_name", "fd_filestat_get", "fd_fdstat_set_flags", "fd_readdir",
		"path_open", "path_filestat_get",
	} {
		own[name] = answer(errnoBadf)
	}
	functions := []Function{{wasiModule, "proc_exit", []ValueType{I32}, nil, procExit}}
	all := wasiParams()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		params := all[name]
		f, ok := own[name]
		if !ok {
			f = answer(errnoNosys)
		}
		functions = append(functions, Function{wasiModule, name, valueTypes(params), []ValueType{I32}, f.run()})
	}
	return functions
}

func valueTypes(letters string) []ValueType {
	types := make([]ValueType, len(letters))
	for i := range letters {
		types[i] = I32
		if letters[i] == 'I' {
			types[i] = I64
		}
	}
	return types
}

func (f wasiFunc) run() runFunc {
	return func(ctx context.Context, c *Call, memory Memory, stack []uint64) error {
		errno, err := f(ctx, c, memory, stack)
		stack[0] = errno
		return err
	}
}

func answer(errno uint64) wasiFunc {
	return func(context.Context, *Call, Memory, []uint64) (uint64, error) { return errno, nil }
}

func procExit(_ context.Context, _ *Call, _ Memory, stack []uint64) error {
	return &End{text: fmt.Sprintf("the guest exited with status %d", uint32(stack[0]))}
}

// schedYield lets other goroutines run.
func schedYield(context.Context, *Call, Memory, []uint64) (uint64, error) {
	runtime.Gosched()
	return errnoSuccess, nil
}

// argument is args[0], which stock Go programs require. It is the only argument, and there
// is no environment.
const argument = "provider\x00"

func argsSizesGet(_ context.Context, _ *Call, memory Memory, stack []uint64) (uint64, error) {
	return writeSizes(memory, stack, 1, uint32(len(argument)))
}

func environSizesGet(_ context.Context, _ *Call, memory Memory, stack []uint64) (uint64, error) {
	return writeSizes(memory, stack, 0, 0)
}

func writeSizes(memory Memory, stack []uint64, count, size uint32) (uint64, error) {
	if !writeU32(memory, uint32(stack[0]), count) || !writeU32(memory, uint32(stack[1]), size) {
		return errnoFault, nil
	}
	return errnoSuccess, nil
}

func argsGet(_ context.Context, _ *Call, memory Memory, stack []uint64) (uint64, error) {
	list, buffer := uint32(stack[0]), uint32(stack[1])
	if !write(memory, buffer, []byte(argument)) || !writeU32(memory, list, buffer) {
		return errnoFault, nil
	}
	return errnoSuccess, nil
}

// Clocks of preview 1. Those of processor time are not offered.
const (
	clockRealtime  = 0
	clockMonotonic = 1
)

func clockResGet(_ context.Context, _ *Call, memory Memory, stack []uint64) (uint64, error) {
	resolution := uint64(time.Microsecond)
	switch uint32(stack[0]) {
	case clockRealtime:
	case clockMonotonic:
		resolution = uint64(time.Nanosecond)
	default:
		return errnoInval, nil
	}
	return writeU64(memory, uint32(stack[1]), resolution), nil
}

// clockTimeGet tells the time. The monotonic clock starts at epoch.
func clockTimeGet(epoch time.Time) wasiFunc {
	return func(_ context.Context, _ *Call, memory Memory, stack []uint64) (uint64, error) {
		t := time.Now().UnixNano()
		switch uint32(stack[0]) {
		case clockRealtime:
		case clockMonotonic:
			t = int64(time.Since(epoch))
		default:
			return errnoInval, nil
		}
		return writeU64(memory, uint32(stack[2]), uint64(t)), nil
	}
}

// randomGet is random_get(ptr, length) -> errno.
func randomGet(_ context.Context, _ *Call, memory Memory, stack []uint64) (uint64, error) {
	length := uint32(stack[1])
	if length > maxRandomBytes {
		return errnoInval, nil
	}
	data, ok := memory.Read(uint32(stack[0]), length)
	if !ok {
		return errnoFault, nil
	}
	_, _ = rand.Read(data) // never fails
	return errnoSuccess, nil
}

func write(memory Memory, ptr uint32, data []byte) bool {
	to, ok := memory.Read(ptr, uint32(len(data)))
	if ok {
		copy(to, data)
	}
	return ok
}

func writeU32(memory Memory, ptr, value uint32) bool {
	return write(memory, ptr, binary.LittleEndian.AppendUint32(nil, value))
}

// writeU64 returns an errno.
func writeU64(memory Memory, ptr uint32, value uint64) uint64 {
	if !write(memory, ptr, binary.LittleEndian.AppendUint64(nil, value)) {
		return errnoFault
	}
	return errnoSuccess
}
