// Package compile compiles a module in a child process. A module that makes a
// compiler take gigabytes or hours then costs an error and not the manager. The
// child runs the same binary, with limits on its memory, time and files. It
// writes the machine code into the engine's cache directory, where the manager's
// own engine finds it.
package compile

import (
	"fmt"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

// Limits of one compilation. All are needed.
type Limits struct {
	// Wall is the most time that it may take, and CPU the most time of a
	// processor, rounded up to seconds.
	Wall, CPU time.Duration
	// MemoryBytes is the most that the child may have allocated.
	MemoryBytes uint64
	// OutputBytes is the most machine code, in one file.
	OutputBytes uint64
}

// DefaultLimits are enough for guests of stock Go of some 10 MB.
func DefaultLimits() Limits {
	return Limits{Wall: time.Minute, CPU: time.Minute, MemoryBytes: 512 << 20, OutputBytes: 256 << 20}
}

// NewEngine returns the engine of that name, which keeps what it has compiled
// in a directory.
type NewEngine func(name, cacheDir string) (engine.Engine, error)

// job is what the parent tells the child, as one line before the module.
type job struct {
	Engine   string `json:"engine"`
	CacheDir string `json:"cacheDir"`
	Bytes    int64  `json:"bytes"`
	Limits   Limits `json:"limits"`
}

// result is what the child answers, as one line.
type result struct {
	// Error is empty when the module has been compiled.
	Error string `json:"error,omitempty"`
}

// Bounds of what parent and child exchange.
const (
	maxModuleBytes = 256 << 20
	maxResultBytes = 64 << 10
	maxStderrBytes = 4 << 10
	maxErrorBytes  = 2 << 10
)

func mebibytes(n uint64) string { return fmt.Sprintf("%d MiB", n>>20) }
