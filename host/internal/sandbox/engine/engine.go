// Package engine is the boundary to a WebAssembly runtime: it compiles a module, makes
// instances of it and runs ops in them, by the calling convention of ABI v1. For its callers
// a guest is bytes in and bytes out. Only the packages below it touch guest memory
// (engine/wazero, engine/wasmtime, and engine/imports on behalf of both).
package engine

import (
	"context"
	"errors"
	"io"
	"math"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Modules arrive metered (host/internal/sandbox/meter): when their fuel is below zero they call
// the import RefuelModule.RefuelName, (fuel i64) -> (fuel i64). The engine ends
// the op there when its context is over, and refuels otherwise. So every
// engine stops every guest in time, and counts its work in the same way.
const (
	RefuelModule = "ccm_meter"
	RefuelName   = "refuel"
	// Tank is the fuel of one refill: at most about as many instructions, a
	// few milliseconds.
	Tank = 1 << 18
	// StackBytes bounds the stack of a guest's calls, by the meter's count of each frame's
	// largest size. An engine with a smaller stack may end a guest with large frames earlier.
	StackBytes = 4 << 20
	// FuelCallDepth is passed in place of the fuel by a module whose calls nest too deep. The
	// engine ends the op.
	FuelCallDepth = math.MinInt64
	// GlobalPrefix with a number from 0 on names the exports of all mutable globals in a metered
	// module whose instances may begin as a Snapshot.
	GlobalPrefix = "ccm_global_"
)

// Default is the Name of the engine for modules that name none, including old records.
const Default = "wazero"

// ErrNotCompiled is the error of a module without machine code, from an engine that must not
// compile.
var ErrNotCompiled = errors.New("the machine code of the module is missing, and this process does not compile")

// ErrNoSnapshot is the error of an instance whose state cannot be copied.
var ErrNoSnapshot = errors.New("no instance can begin as a snapshot: the module changes its tables, drops segments, or has globals of vectors or references that change")

// Engine compiles modules. It is safe for concurrent use.
type Engine interface {
	// Name is the engine's name in configurations and --wasm-engine.
	Name() string
	// Compile checks and compiles a module. The bytes are not kept. A failure leaves nothing
	// behind and harms no other module.
	Compile(ctx context.Context, wasm []byte, config ModuleConfig) (Module, error)
	// Close frees the state shared by the engine's modules.
	Close(ctx context.Context) error
}

// ModuleConfig bounds the instances of one module.
type ModuleConfig struct {
	// MemoryLimitBytes bounds the linear memory of one instance, rounded down to 64 KiB pages.
	MemoryLimitBytes uint64
	// Host answers the host calls. Many instances call it concurrently.
	Host Host
	// Stdout and Stderr take the guest's output to its file descriptors 1 and 2; nil discards.
	// They bound what they keep.
	Stdout, Stderr io.Writer
}

// Host answers host calls: those of the shape (ptr, len) -> i64, log included.
type Host interface {
	// HostCall runs the import of that name. The request is a copy which the host may keep; the
	// result belongs to the engine. With another code than abi.CodeOK the result is an encoded
	// abi.ErrorDetail or empty. The context is the op's, with its deadline.
	HostCall(ctx context.Context, name string, request []byte) (abi.Code, []byte)
}

// Module is a compiled module. It is safe for concurrent use.
type Module interface {
	// Instantiate makes an instance and runs its _initialize, bounded by the
	// context. A failure harms neither the module nor its other instances.
	Instantiate(ctx context.Context) (Instance, error)
	// Close frees the module. Its instances must be closed before.
	Close(ctx context.Context) error
}

// Instance is one instantiated guest. It runs one op at a time and is not safe
// for concurrent use.
type Instance interface {
	// Call runs one op, bounded by the context. An error means that the guest trapped, broke the
	// calling convention or ran out of time; the instance must then be closed and never be used
	// again. An answer with another code than abi.CodeOK is not an error here. A second op
	// during a running one, as from within a host call, is refused and harms neither.
	Call(ctx context.Context, op abi.Op, request []byte) (Result, error)
	// MemoryBytes is the size of the instance's linear memory; 0 after Close.
	MemoryBytes() uint64
	// Close frees the instance; further calls do nothing. During an op it is refused.
	Close(ctx context.Context) error
}

// Snapshotter is an Instance whose state other instances can begin with.
type Snapshotter interface {
	// Snapshot copies the instance's state between two ops: its memory and its globals. It is
	// for guests that export abi.ExportResume. The error is ErrNoSnapshot, or says what failed;
	// the instance is unchanged.
	Snapshot() (Snapshot, error)
}

// Snapshot is an instance's copied state. It is safe for concurrent use.
type Snapshot interface {
	// Instantiate makes an instance with the copied state, and runs its abi.ExportResume,
	// bounded by the context. If the system can, the instances share unmodified memory.
	Instantiate(ctx context.Context) (Instance, error)
	// Bytes is the snapshot's memory.
	Bytes() uint64
	// Close frees the snapshot, before its module. Its instances stay.
	Close() error
}

// Result is a guest's answer. The slices are copies owned by the caller.
type Result struct {
	Code abi.Code
	// Response is the argument of resp_write; nil without a call.
	Response []byte
	// Fuel is the op's consumption in full tanks: a measure of its work that does not depend on
	// the machine.
	Fuel int64
	// Detail is the encoded abi.ErrorDetail of err_write, or nil.
	Detail []byte
}
