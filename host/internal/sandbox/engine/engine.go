// Package engine is the boundary to a WebAssembly runtime: it compiles a module,
// makes instances of it and runs ops in them, by the calling convention of ABI
// v1. For its callers a guest is bytes in and bytes out. Only the packages below
// it touch guest memory (engine/wazero, engine/wasmtime, and engine/imports on
// behalf of both).
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
	// StackBytes is what the calls of a guest may take of the stack, by the
	// meter's count of what each frame could hold. An engine whose own stack is
	// smaller may end a guest of large frames before that.
	StackBytes = 4 << 20
	// FuelCallDepth is passed instead of the fuel by a module whose calls nest
	// too deep. The engine ends the op.
	FuelCallDepth = math.MinInt64
	// GlobalPrefix and a number from 0 on are the names by which a metered
	// module exports all of its mutable globals, where its instances may begin
	// as a Snapshot.
	GlobalPrefix = "ccm_global_"
)

// Default is the Name of the engine that runs what names none. Records of before
// there was a choice mean it, too.
const Default = "wazero"

// ErrNotCompiled is of a module whose machine code is not there, by an engine
// that must not compile.
var ErrNotCompiled = errors.New("the machine code of the module is missing, and this process does not compile")

// ErrNoSnapshot is of an instance that no other one can begin as.
var ErrNoSnapshot = errors.New("no instance can begin as a snapshot: the module changes its tables, drops segments, or has globals of vectors or references that change")

// Engine compiles modules. It is safe for concurrent use.
type Engine interface {
	// Name is what configurations and --wasm-engine call this engine.
	Name() string
	// Compile checks and compiles a module. The bytes are not kept. A failure
	// leaves nothing behind and harms no other module.
	Compile(ctx context.Context, wasm []byte, config ModuleConfig) (Module, error)
	// Close frees what the engine shares between its modules.
	Close(ctx context.Context) error
}

// ModuleConfig bounds the instances of one module.
type ModuleConfig struct {
	// MemoryLimitBytes is the most linear memory that one instance may have,
	// rounded down to 64 KiB pages.
	MemoryLimitBytes uint64
	// Host answers the host calls. It is called from many instances at once.
	Host Host
	// Stdout and Stderr take what the guest writes to its file descriptors 1
	// and 2; nil discards. They bound what they keep.
	Stdout, Stderr io.Writer
}

// Host answers host calls: those of the shape (ptr, len) -> i64, log included.
type Host interface {
	// HostCall runs the import of that name. The request is a copy which the
	// host may keep; the result belongs to the engine. With another code than
	// abi.CodeOK the result is an encoded abi.ErrorDetail or empty. The
	// context is the op's, with its deadline.
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
	// Call runs one op, bounded by the context. An error means that the guest
	// trapped, broke the calling convention or ran out of time; the instance
	// must then be closed and never be used again. A guest that answers with
	// another code than abi.CodeOK is not an error here. A second op while one
	// runs, as from within a host call, is refused and harms neither.
	Call(ctx context.Context, op abi.Op, request []byte) (Result, error)
	// MemoryBytes is the size of the instance's linear memory; 0 when the
	// instance is closed.
	MemoryBytes() uint64
	// Close frees the instance; once more does nothing. While an op runs it is
	// refused.
	Close(ctx context.Context) error
}

// Snapshotter is an Instance that others can begin as.
type Snapshotter interface {
	// Snapshot copies what the instance is between two ops: its memory and its
	// globals. It is called for guests that export abi.ExportResume. The error is
	// ErrNoSnapshot, or says what failed; the instance is as before.
	Snapshot() (Snapshot, error)
}

// Snapshot is what an instance was. It is safe for concurrent use.
type Snapshot interface {
	// Instantiate makes an instance that begins as the one was, and runs its
	// abi.ExportResume, bounded by the context. What the instances have in
	// common takes memory once, where the system can do that.
	Instantiate(ctx context.Context) (Instance, error)
	// Bytes is the memory that the snapshot takes.
	Bytes() uint64
	// Close frees the snapshot. Its instances stay. It is closed before its
	// module.
	Close() error
}

// Result is what a guest answered. The slices are copies owned by the caller.
type Result struct {
	Code abi.Code
	// Response is what resp_write handed over; nil when it was not called.
	Response []byte
	// Fuel is what the op used up, in full tanks: a measure of its work that
	// does not depend on the machine.
	Fuel int64
	// Detail is the encoded abi.ErrorDetail that err_write handed over, or nil.
	Detail []byte
}
