// Package meter rewrites a WebAssembly module so that whoever runs it can stop
// it at any time. The rewritten module counts down fuel at every function
// entry and loop header, by the number of instructions that follow, and at
// bulk memory and table operations, by their length. When the fuel is used up
// it calls an import of the host, which looks at the clock and refuels, or
// ends the guest. It counts how deep its calls nest. Memories and tables are
// clamped to a limit.
//
// A guest that neither loops nor calls ends by itself, so every guest is
// interruptible within the time of one tank, whatever the shape of its code.
// The same work costs the same fuel on every engine, and the same call is one
// too many.
//
// It imports internal/wasmbin only.
package meter

import (
	"fmt"
	"math"
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
	// MaxCallDepth bounds how deep calls nest. A function counts as one, and
	// as one more for every 64 locals and instructions, since it may need that
	// much more stack; functions that call none of the module's count nothing.
	// 0 is DefaultMaxCallDepth.
	MaxCallDepth uint32
}

// DefaultMaxCallDepth is enough for decoders that recurse ten thousand levels
// deep, and holds at most 32 MiB of operands.
const DefaultMaxCallDepth = 1 << 16

// FuelCallDepth is what the module passes instead of its fuel when its calls
// nest deeper than Options.MaxCallDepth. The host ends the guest and says so.
// A host that does not know it cannot go on either: the module traps.
const FuelCallDepth = math.MinInt64

// Bounds on what is rewritten, so that a hostile module costs an error.
const (
	maxFunctions = 1 << 18
	maxTypes     = 1 << 16
	// maxLocals of one function. A module of 450 KB with thousands of locals
	// in each function takes seconds to compile.
	maxLocals       = 4096
	maxBodyBytes    = 4 << 20
	maxBlockDepth   = 1024
	maxDataSegments = 1 << 16
	maxCallDepth    = 1 << 30
	maxMemoryPages  = 1 << 16
)

// What instructions cost: one unit each, except for these.
const (
	// costMemory is a load's or store's: memory that is in no cache, at an
	// address that is not in the TLB, answers after hundreds of instructions.
	costMemory = 16
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
	// slotsPerDepth: locals and instructions for one more of call depth.
	slotsPerDepth = 64
)

// Rewrite returns the metered module. The input is not changed and the result
// shares no memory with it. Custom sections are dropped. An error means that
// the module is malformed, uses an instruction that is not known here, or
// needs more than the limits allow.
func Rewrite(wasm []byte, options Options) ([]byte, error) {
	sections, err := split(wasm)
	if err != nil {
		return nil, fmt.Errorf("meter: %w", err)
	}
	if options.MaxCallDepth == 0 {
		options.MaxCallDepth = DefaultMaxCallDepth
	}
	options.MaxCallDepth = min(options.MaxCallDepth, maxCallDepth)
	m := &rewriter{options: options, sections: sections}
	for _, step := range []func() error{
		m.types, m.imports, m.functions, m.tables, m.memories, m.globals,
		m.exports, m.start, m.elements, m.code, m.data,
		m.appendTypes, m.appendFunctions,
	} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("meter: %w", err)
		}
	}
	return join(m.sections), nil
}
