// Package meter rewrites a WebAssembly module so that it can be stopped at any
// time. The rewritten module counts down fuel at every function entry and loop
// header, by the number of instructions that follow, and at bulk memory and
// table operations, by their length. When the fuel is used up, it calls an import
// of the host, which looks at the clock and refuels, or ends the guest. The meter
// also counts the stack of nested calls, and limits memories and tables.
//
// The module is decoded, checked and written anew, instruction by instruction: an
// engine reads only what was read here, in one encoding.
//
// A guest that neither loops nor calls ends by itself. So every guest can be
// stopped within the time of one tank, whatever the shape of its code.
package meter

import (
	"fmt"
	"math"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// Options of a rewrite.
type Options struct {
	// ImportModule and ImportName name the function i64 -> i64 that the module
	// calls when its fuel is below zero, with the fuel, and which returns the
	// fuel to go on with. A module that imports from ImportModule itself is
	// refused.
	ImportModule, ImportName string
	// MaxMemoryPages bounds every memory, in pages of 64 KiB.
	MaxMemoryPages uint32
	// MaxTableElements bounds all tables together: each has the same part of it.
	MaxTableElements uint32
	// MaxStackBytes bounds what nested calls may take of an engine's stack. A
	// function counts as what it could need: every parameter, local, operand and
	// merged value of it, in bytes, and something for the call (see frame).
	// Small functions that call none of the module's count nothing. 0 is
	// DefaultMaxStackBytes.
	MaxStackBytes uint32
	// Resume is the name of an export by which a module says that its instances
	// may begin as a snapshot of another one. Then its mutable globals, and those
	// of the meter, are exported as Globals followed by 0, 1, ..., unless it has
	// state that a host sees neither in them nor in the memory: instructions that
	// change tables or drop segments, globals of references or vectors. "" exports
	// none. A module that exports such a name itself is refused.
	Resume, Globals string
}

// DefaultMaxStackBytes is enough for decoders that recurse thousands of levels
// deep.
const DefaultMaxStackBytes = 4 << 20

// FuelCallDepth is what the module passes instead of its fuel when its calls
// nest deeper than Options.MaxStackBytes allows. The host ends the guest and
// says so. A host that does not know it cannot go on either: the module traps.
const FuelCallDepth = math.MinInt64

// maxStackBytes is the most that the counter of the depth can hold.
const maxStackBytes = 1 << 30

// What instructions cost: one unit each, except for these.
const (
	// costMemory is a load's or store's: memory that is in no cache, at an
	// address that is not in the TLB, answers after hundreds of instructions.
	costMemory = 16
	// costCall is that of what an engine has a function of its own for.
	costCall = 2 * costMemory
	// costHost is that of what leaves the guest: an import, or growing.
	costHost = 256
	// maxRun is the most that is charged at once. Longer code pays again in
	// the middle, so that no function is a way around the clock.
	maxRun = 1 << 15
	// bytesPerFuelLog2: bulk operations cost one unit for 8 bytes.
	bytesPerFuelLog2 = 3
	// elementsPerFuelLog2: table operations cost one unit for each element.
	elementsPerFuelLog2 = 0
	// fuelPerPageLog2: growing a memory costs as much as copying it twice.
	fuelPerPageLog2 = 14
)

// Rewrite is RewriteModule of bytes that nobody has decoded before.
func Rewrite(wasm []byte, options Options) ([]byte, error) {
	module, err := wasmbin.Parse(wasm)
	if err != nil {
		return nil, fmt.Errorf("meter: %w", err)
	}
	return RewriteModule(module, options)
}

// RewriteModule returns the metered module. The input is not changed and the
// result shares no memory with it. Custom sections are dropped. An error means
// that the module is not valid, uses an instruction that is not known or not
// allowed here, or needs more than the limits allow.
func RewriteModule(module *wasmbin.Module, options Options) ([]byte, error) {
	// Invariant M19 (host/SECURITY.md): of the original nothing but what was decoded gets into
	// the metered module.
	if options.MaxStackBytes == 0 {
		options.MaxStackBytes = DefaultMaxStackBytes
	}
	options.MaxStackBytes = min(options.MaxStackBytes, maxStackBytes)
	m := newRewriter(module, options)
	for _, step := range []func() error{
		m.types, m.imports, m.functions, m.tables, m.memories, m.globals,
		m.exports, m.start, m.elements, m.dataCount, m.code, m.data,
	} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("meter: %w", err)
		}
	}
	if m.hidden && len(m.kept) > 0 {
		options.Resume = ""
		return RewriteModule(module, options)
	}
	return m.out, nil
}
