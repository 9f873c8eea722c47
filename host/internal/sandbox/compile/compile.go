// Package compile meters and compiles a module in child processes. A module that
// makes a compiler take gigabytes or hours then costs an error and not the
// manager. A child runs the same binary, with limits on its memory, time and
// files. The first writes the metered module, the second its machine code into
// the engine's cache directory. There the manager's own engine finds it by the
// outline of the metered module (wasmbin.Outline): the manager never holds its
// code.
package compile

import (
	"fmt"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
)

// Limits of one compilation. All are needed, or none.
type Limits struct {
	// Wall is the most time that it may take, and CPU the most time of a
	// processor, rounded up to seconds.
	Wall, CPU time.Duration
	// MemoryBytes is the most that the child may have allocated.
	MemoryBytes uint64
	// OutputBytes is the most machine code, in one file.
	OutputBytes uint64
	// Setting is what the administrator raises them with, for errors; "": nothing
	// does.
	Setting string
	// full: OutputBytes is what there is room for.
	full bool
}

// complete reports whether there is something of everything.
func (l Limits) complete() bool {
	return l.Wall > 0 && l.CPU > 0 && l.MemoryBytes > 0 && l.OutputBytes > 0
}

// remedy is what can be done about a module that needs more.
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

// NewEngine returns the engine of that name, which keeps compiled modules in a
// directory.
type NewEngine func(name, cacheDir string) (engine.Engine, error)

// Job is a module to prepare.
type Job struct {
	// Wasm is the module as it was offered, and Digest its SHA-256 in hexadecimal,
	// as it was checked. Neither is kept.
	Wasm   []byte
	Digest string
	// Meter says how it is metered, and Engine is the name of the engine that it is
	// compiled with.
	Meter  meter.Options
	Engine string
	// Limits of the two processes; the zero value is that of the Parent.
	Limits Limits
	// Anew compiles it also where its machine code is there: the engine had no use
	// for it.
	Anew bool
	// Hold, unless nil, keeps the machine code in the cache until it is released.
	Hold *Hold
	// Metered, unless nil, is called when the module has been metered, and so is
	// known to be valid.
	Metered func()
}

func (j Job) metered() {
	if j.Metered != nil {
		j.Metered()
	}
}

// InvalidError is of a module that cannot be metered.
type InvalidError struct{ text string }

// Error says what is wrong with the module.
func (e *InvalidError) Error() string { return e.text }

// job is what the parent tells the child, as one line.
type job struct {
	Limits Limits `json:"limits"`
	// Meter is of the first child: the line is followed by a module of so many
	// bytes, with this SHA-256 in hexadecimal. It leaves meteredFile and
	// outlineFile in Dir.
	Meter  *meter.Options `json:"meter,omitempty"`
	Bytes  int64          `json:"bytes,omitempty"`
	Digest string         `json:"digest,omitempty"`
	// Engine is of the second child, which leaves what it compiles of these in
	// Out.
	Engine string `json:"engine,omitempty"`
	Dir    string `json:"dir"`
	Out    string `json:"out,omitempty"`
	// Data is how much more than the machine code a file of the second child may
	// have: the engine keeps the module's data in one, in memory.
	Data uint64 `json:"data,omitempty"`
}

// The files in job.Dir.
const (
	meteredFile = "metered.wasm"
	outlineFile = "outline.wasm"
)

// outlines is the directory of the cache that has them, by the key of the
// machine code.
const outlines = "outlines"

// result is what the child answers, as one line.
type result struct {
	// Error is empty when the job is done.
	Error string `json:"error,omitempty"`
	// Invalid: the error is the module's fault.
	Invalid bool `json:"invalid,omitempty"`
	// Digest is that of the metered module.
	Digest string `json:"digest,omitempty"`
}

// Bounds of what parent and child exchange.
const (
	maxModuleBytes = 256 << 20
	maxResultBytes = 64 << 10
	maxStderrBytes = 4 << 10
	maxErrorBytes  = 2 << 10
)

func mebibytes(n uint64) string { return fmt.Sprintf("%d MiB", n>>20) }
