// Package compile meters and compiles a module in child processes, so that a module which
// makes a compiler take gigabytes or hours costs an error and not the manager. A child runs
// the same binary, with limits on its memory, time and files. The first writes the metered
// module, the second its machine code into the engine's cache directory. There the manager's
// own engine finds it by the outline of the metered module (wasmbin.Outline): the manager
// never holds the module's code.
package compile

import (
	"fmt"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
)

// Limits of one compilation. Either all are set, or none.
type Limits struct {
	// Wall bounds its time, and CPU its processor time, rounded up to seconds.
	Wall, CPU time.Duration
	// MemoryBytes bounds the child's allocations.
	MemoryBytes uint64
	// OutputBytes bounds the machine code, in one file.
	OutputBytes uint64
	// Setting is the administrator's setting for them, for errors; "": none.
	Setting string
	// full: OutputBytes is the room left on the disk.
	full bool
}

// complete reports whether all limits are set.
func (l Limits) complete() bool {
	return l.Wall > 0 && l.CPU > 0 && l.MemoryBytes > 0 && l.OutputBytes > 0
}

// remedy tells the administrator how to allow the module more.
func (l Limits) remedy() string {
	if l.Setting == "" {
		return "make it smaller"
	}
	return "make it smaller, or raise " + l.Setting
}

// DefaultLimits are enough for guests of stock Go of some 10 MB.
func DefaultLimits() Limits {
	return Limits{Wall: time.Minute, CPU: time.Minute, MemoryBytes: 512 << 20, OutputBytes: 256 << 20}
}

// NewEngine returns the engine of that name with a directory of compiled modules.
type NewEngine func(name, cacheDir string) (engine.Engine, error)

// Job is a module to prepare.
type Job struct {
	// Wasm is the offered module, and Digest its checked SHA-256 in hexadecimal. Neither is
	// kept.
	Wasm   []byte
	Digest string
	// Meter has the meter's options, and Engine is the name of the compiling engine.
	Meter  meter.Options
	Engine string
	// Limits of the two processes; the zero value means the Parent's.
	Limits Limits
	// Anew compiles also if there is machine code: the engine rejected it.
	Anew bool
	// Hold, unless nil, protects the machine code in the cache until it is released.
	Hold *Hold
	// Metered, unless nil, is called after metering, when the module is known to be valid.
	Metered func()
}

func (j Job) metered() {
	if j.Metered != nil {
		j.Metered()
	}
}

// InvalidError is the error of a module that cannot be metered.
type InvalidError struct{ text string }

// Error says what is wrong with the module.
func (e *InvalidError) Error() string { return e.text }

// job is the parent's message to the child, as one line.
type job struct {
	Limits Limits `json:"limits"`
	// Meter is set for the first child: a module of that size and SHA-256 (hexadecimal) follows
	// the line. The child writes meteredFile and outlineFile to Dir.
	Meter  *meter.Options `json:"meter,omitempty"`
	Bytes  int64          `json:"bytes,omitempty"`
	Digest string         `json:"digest,omitempty"`
	// Engine is set for the second child, which compiles these files into Out.
	Engine string `json:"engine,omitempty"`
	Dir    string `json:"dir"`
	Out    string `json:"out,omitempty"`
	// Data is the second child's allowance for a file beyond the machine code: the engine keeps
	// the module's data in a file in memory.
	Data uint64 `json:"data,omitempty"`
}

// The files in job.Dir.
const (
	meteredFile = "metered.wasm"
	outlineFile = "outline.wasm"
)

// outlines is the cache's directory of outlines, by the key of the machine code.
const outlines = "outlines"

// result is the child's answer, as one line.
type result struct {
	// Error is empty on success.
	Error string `json:"error,omitempty"`
	// Invalid: the module is at fault.
	Invalid bool `json:"invalid,omitempty"`
	// Short: the disk has no room for the output (quota.Short).
	Short bool `json:"short,omitempty"`
	// Digest is the metered module's.
	Digest string `json:"digest,omitempty"`
}

// Bounds of the messages between parent and child.
const (
	maxModuleBytes = 256 << 20
	maxResultBytes = 64 << 10
	maxStderrBytes = 4 << 10
	maxErrorBytes  = 2 << 10
)

func mebibytes(n uint64) string { return fmt.Sprintf("%d MiB", n>>20) }
