package wazero

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/wasm-ccm/wasm-ccm/host/engine"
)

// The errno of WASI preview 1 that are answered here.
const (
	errnoSuccess = 0
	errnoBadf    = 8
	errnoFault   = 21
	errnoInval   = 28
	errnoIO      = 29
	errnoNosys   = 52
)

// Bounds of one WASI call. A guest that wants more calls again, and is metered
// between the calls.
const (
	maxIovecs        = 1024
	maxWriteBytes    = 64 << 10
	maxRandomBytes   = 1 << 20
	maxSubscriptions = 64
)

// instantiateWASI gives a runtime the functions of WASI preview 1. Those that
// neither block, nor take work or memory of the guest's choice, are the
// library's; a few are our own; the others answer "not supported", with the
// library's signatures.
func instantiateWASI(ctx context.Context, r wazero.Runtime, config engine.ModuleConfig) error {
	library, err := wasi_snapshot_preview1.NewBuilder(r).Compile(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = library.Close(ctx) }() // only its names and types are used
	builder := r.NewHostModuleBuilder(wasi_snapshot_preview1.ModuleName)
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(builder)
	own := wasiFunctions(config)
	for name, f := range library.ExportedFunctions() {
		if wasiOfLibrary(name) {
			continue
		}
		function, ok := own[name]
		if !ok {
			function = wasiAnswer(errnoNosys)
		}
		builder.NewFunctionBuilder().WithGoModuleFunction(function, f.ParamTypes(), f.ResultTypes()).Export(name)
	}
	_, err = builder.Instantiate(ctx)
	return err
}

func wasiOfLibrary(name string) bool {
	switch name {
	case "args_get", "args_sizes_get", "environ_get", "environ_sizes_get",
		"clock_res_get", "clock_time_get", "sched_yield", "proc_exit":
		return true
	}
	return false
}

func wasiFunctions(config engine.ModuleConfig) map[string]api.GoModuleFunction {
	badf := wasiAnswer(errnoBadf)
	functions := map[string]api.GoModuleFunction{
		"fd_write":      fdWrite{config.Stdout, config.Stderr},
		"fd_fdstat_get": api.GoModuleFunc(fdStatGet),
		"poll_oneoff":   api.GoModuleFunc(pollOneoff),
		"random_get":    api.GoModuleFunc(randomGet),
	}
	// There are no files: nothing is open but the standard output and error,
	// which only fd_write knows, and nothing is preopened.
	for _, name := range []string{
		"fd_close", "fd_read", "fd_seek", "fd_tell", "fd_pread", "fd_pwrite", "fd_sync", "fd_datasync",
		"fd_prestat_get", "fd_prestat_dir_name", "fd_filestat_get", "fd_fdstat_set_flags", "fd_readdir",
		"path_open", "path_filestat_get",
	} {
		functions[name] = badf
	}
	return functions
}

func wasiAnswer(errno uint64) api.GoModuleFunction {
	return api.GoModuleFunc(func(_ context.Context, _ api.Module, stack []uint64) {
		if len(stack) > 0 {
			stack[0] = errno
		}
	})
}

// fdWrite is fd_write(fd, iovecs, count, written) -> errno. It may write less
// than it is asked to, as WASI allows.
type fdWrite struct{ stdout, stderr io.Writer }

func (f fdWrite) Call(_ context.Context, guest api.Module, stack []uint64) {
	stack[0] = f.write(guest.Memory(), uint32(stack[0]), uint32(stack[1]), uint32(stack[2]), uint32(stack[3]))
}

func (f fdWrite) write(memory api.Memory, fd, iovecs, count, written uint32) uint64 {
	w := f.stdout
	switch fd {
	case 1:
	case 2:
		w = f.stderr
	default:
		return errnoBadf
	}
	data, errno := gather(memory, iovecs, count)
	if errno != errnoSuccess {
		return errno
	}
	if w != nil {
		if _, err := w.Write(data); err != nil {
			return errnoIO
		}
	}
	if !memory.WriteUint32Le(written, uint32(len(data))) {
		return errnoFault
	}
	return errnoSuccess
}

// gather copies what the iovecs point at, within the bounds of one call.
func gather(memory api.Memory, iovecs, count uint32) (data []byte, errno uint64) {
	if count > maxIovecs {
		return nil, errnoInval
	}
	list, ok := memory.Read(iovecs, 8*count)
	if !ok {
		return nil, errnoFault
	}
	for ; len(list) > 0 && len(data) < maxWriteBytes; list = list[8:] {
		part, ok := memory.Read(binary.LittleEndian.Uint32(list), binary.LittleEndian.Uint32(list[4:]))
		if !ok {
			return nil, errnoFault
		}
		data = append(data, part[:min(len(part), maxWriteBytes-len(data))]...)
	}
	return data, errnoSuccess
}

// fdStatGet is fd_fdstat_get(fd, result) -> errno: descriptors 0 to 2 are
// character devices without rights, which is what C libraries ask before they
// buffer lines.
func fdStatGet(_ context.Context, guest api.Module, stack []uint64) {
	fd, result := uint32(stack[0]), uint32(stack[1])
	if fd > 2 {
		stack[0] = errnoBadf
		return
	}
	stack[0] = errnoSuccess
	const characterDevice = 2
	if !guest.Memory().Write(result, append([]byte{characterDevice}, make([]byte, 23)...)) {
		stack[0] = errnoFault
	}
}

// randomGet is random_get(ptr, length) -> errno.
func randomGet(_ context.Context, guest api.Module, stack []uint64) {
	length := uint32(stack[1])
	if length > maxRandomBytes {
		stack[0] = errnoInval
		return
	}
	data, ok := guest.Memory().Read(uint32(stack[0]), length)
	stack[0] = errnoSuccess
	if !ok {
		stack[0] = errnoFault
		return
	}
	_, _ = rand.Read(data) // never fails
}

// pollOneoff is poll_oneoff(in, out, count, events) -> errno. It sleeps until
// the first of the clocks is due, and no longer than the op has. There are no
// files to wait for.
func pollOneoff(ctx context.Context, guest api.Module, stack []uint64) {
	memory, in, out, count, events := guest.Memory(), uint32(stack[0]), uint32(stack[1]), uint32(stack[2]), uint32(stack[3])
	if count == 0 || count > maxSubscriptions {
		stack[0] = errnoInval
		return
	}
	view, ok := memory.Read(in, subscriptionBytes*count)
	if !ok {
		stack[0] = errnoFault
		return
	}
	due, errno := firstDue(view)
	stack[0] = errno
	if errno != errnoSuccess {
		return
	}
	sleep(ctx, due.after)
	const eventBytes = 32
	event := append(append(make([]byte, 0, eventBytes), due.userdata...), make([]byte, eventBytes-8)...)
	if !memory.Write(out, event) || !memory.WriteUint32Le(events, 1) {
		stack[0] = errnoFault
	}
}

// A subscription: userdata u64, tag u8, and for the tag of clocks, from byte
// 16 on: clock u32, timeout u64 at 24, precision u64, flags u16 at 40.
const (
	subscriptionBytes = 48
	tagClock          = 0
	clockRealtime     = 0
	flagAbsolute      = 1
)

type clockEvent struct {
	after    time.Duration
	userdata []byte
}

// firstDue returns the clock that is due first.
func firstDue(subscriptions []byte) (first clockEvent, errno uint64) {
	first.after = -1
	for s := subscriptions; len(s) > 0; s = s[subscriptionBytes:] {
		if s[8] != tagClock {
			return first, errnoBadf
		}
		flags, timeout := binary.LittleEndian.Uint16(s[40:]), binary.LittleEndian.Uint64(s[24:])
		if flags&flagAbsolute != 0 {
			// A moment on a clock of the guest's: only real time can be told.
			if binary.LittleEndian.Uint32(s[16:]) != clockRealtime {
				return first, errnoInval
			}
			timeout = uint64(max(0, int64(min(timeout, 1<<63-1))-time.Now().UnixNano()))
		}
		after := time.Duration(min(timeout, 1<<63-1))
		if first.after < 0 || after < first.after {
			first = clockEvent{after, append([]byte(nil), s[:8]...)}
		}
	}
	return first, errnoSuccess
}

// sleep ends the guest when its time is over.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		panic(&outOfTime{fmt.Errorf("while asleep: %w", ctx.Err())})
	}
}
