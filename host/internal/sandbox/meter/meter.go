// Package meter rewrites a WebAssembly module so that it can be stopped at any time. The
// rewritten module counts down fuel at every function entry and loop header, by the number
// of instructions that follow, and at bulk memory and table operations, by their length.
// When the fuel is used up, it calls an import of the host, which looks at the clock and
// refuels, or ends the guest. The meter also counts the stack of nested calls, and limits
// memories and tables.
//
// The module is decoded, checked and written anew, instruction by instruction: an engine
// reads only what was read here, in one encoding.
//
// A guest that neither loops nor calls ends by itself. So every guest can be stopped within
// the time of one tank, whatever the shape of its code.
package meter

import (
	"fmt"
	"math"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// Options of a rewrite.
type Options struct {
	// ImportModule and ImportName name the function i64 -> i64 that the module calls with its
	// fuel when that is below zero; the result is the new fuel. A module with imports of its own
	// from ImportModule is refused.
	ImportModule, ImportName string
	// MaxMemoryPages bounds every memory, in pages of 64 KiB.
	MaxMemoryPages uint32
	// MaxTableElements bounds all tables together, in equal parts.
	MaxTableElements uint32
	// MaxStackBytes bounds nested calls on an engine's stack. A function counts with its largest
	// need: every parameter, local, operand and merged value, in bytes, and the call's overhead
	// (see frame). Small leaf functions count nothing. 0 is DefaultMaxStackBytes.
	MaxStackBytes uint32
	// Resume is the name of an export by which a module allows its instances to begin as a
	// snapshot of another one. Then its mutable globals, and the meter's, are exported as
	// Globals followed by 0, 1, ..., unless it has state outside of them and the memory:
	// instructions that change tables or drop segments, globals of references or vectors. ""
	// exports none. A module that exports such a name itself is refused.
	Resume, Globals string
}

// DefaultMaxStackBytes is enough for decoders that recurse thousands of levels
// deep.
const DefaultMaxStackBytes = 4 << 20

// FuelCallDepth is passed in place of the fuel by a module whose calls nest deeper than
// Options.MaxStackBytes allows. The host ends the guest with that reason. With a host that
// does not know it the module traps.
const FuelCallDepth = math.MinInt64

// maxStackBytes is the largest value of the depth counter.
const maxStackBytes = 1 << 30

// The costs of instructions: one unit each, except for these.
const (
	// costMemory is a load's or store's: an access that misses the caches and the TLB takes
	// hundreds of instructions.
	costMemory = 16
	// costCall is for instructions that an engine implements by a function.
	costCall = 2 * costMemory
	// costHost is for leaving the guest: an import, or growing.
	costHost = 256
	// maxRun bounds a single charge. Longer code pays again in the middle, so that no function
	// evades the clock.
	maxRun = 1 << 15
	// bytesPerFuelLog2: bulk operations cost one unit for 8 bytes.
	bytesPerFuelLog2 = 3
	// elementsPerFuelLog2: table operations cost one unit per element.
	elementsPerFuelLog2 = 0
	// fuelPerPageLog2: growing a memory costs as much as copying it twice.
	fuelPerPageLog2 = 14
)

// Rewrite decodes a module and calls RewriteModule.
func Rewrite(wasm []byte, options Options) ([]byte, error) {
	module, err := wasmbin.Parse(wasm)
	if err != nil {
		return nil, fmt.Errorf("meter: %w", err)
	}
	return RewriteModule(module, options)
}

// RewriteModule returns the metered module. The input is not changed and the result shares
// no memory with it. Custom sections are dropped. An error means that the module is invalid,
// uses an unknown or forbidden instruction, or exceeds the limits.
func RewriteModule(module *wasmbin.Module, options Options) ([]byte, error) {
	// Invariant M19 (host/SECURITY.md): only decoded parts of the original get into the metered
	// module.
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
