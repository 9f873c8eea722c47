package compile

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// RunChild is the whole of the child process: it reads a job, limits itself,
// compiles, writes a result and returns the exit status. It must be the first
// thing that the process does, and the process must end after it.
func RunChild(ctx context.Context, in io.Reader, out io.Writer, newEngine NewEngine) int {
	r := result{}
	if err := runChild(ctx, in, newEngine); err != nil {
		r.Error = text.Line(err.Error(), maxErrorBytes)
	}
	if err := json.NewEncoder(out).Encode(r); err != nil || r.Error != "" {
		return 1
	}
	return 0
}

// childGCPercent trades memory, which is limited, for time.
const childGCPercent = 400

func runChild(ctx context.Context, in io.Reader, newEngine NewEngine) error {
	os.Clearenv()
	buffered := bufio.NewReader(in)
	var j job
	line, err := buffered.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("reading the job: %w", err)
	}
	if err := json.Unmarshal(line, &j); err != nil {
		return fmt.Errorf("the job is not JSON: %w", err)
	}
	if j.Bytes < 0 || j.Bytes > maxModuleBytes {
		return fmt.Errorf("a module of %d bytes, at most %d are allowed", j.Bytes, maxModuleBytes)
	}
	// Invariant M5 (host/SECURITY.md): the child has its limits before it has the module.
	// Before anything of the module is read.
	if err := limitProcess(j.Limits); err != nil {
		return fmt.Errorf("limiting the process: %w", err)
	}
	// Somebody waits for the result, and the process is gone after it; the
	// collector works harder before the limit is met.
	debug.SetGCPercent(childGCPercent)
	debug.SetMemoryLimit(int64(j.Limits.MemoryBytes / 4 * 3))
	wasm := make([]byte, j.Bytes)
	if _, err := io.ReadFull(buffered, wasm); err != nil {
		return fmt.Errorf("reading the module: %w", err)
	}
	return compileModule(ctx, j, wasm, newEngine)
}

func compileModule(ctx context.Context, j job, wasm []byte, newEngine NewEngine) error {
	e, err := newEngine(j.Engine, j.CacheDir)
	if err != nil {
		return err
	}
	// What the instances may have is not for the compiler: the module has been
	// clamped to it.
	const wholeMemory = 1 << 32
	module, err := e.Compile(ctx, wasm, engine.ModuleConfig{MemoryLimitBytes: wholeMemory})
	if err != nil {
		return errors.Join(err, e.Close(ctx))
	}
	return errors.Join(module.Close(ctx), e.Close(ctx))
}
