package compile

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/wasm-ccm/wasm-ccm/host/internal/quota"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// RunChild is the whole child process: it reads a job, limits itself, meters or compiles,
// writes a result and returns the exit status. It must run before anything else in the
// process, which must end after it.
func RunChild(ctx context.Context, in io.Reader, out io.Writer, newEngine NewEngine) int {
	r, err := runChild(ctx, in, newEngine)
	if err != nil {
		var invalid *InvalidError
		r = result{Error: text.Line(err.Error(), maxErrorBytes), Invalid: errors.As(err, &invalid), Short: quota.Short(err)}
	}
	if err := json.NewEncoder(out).Encode(r); err != nil || r.Error != "" {
		return 1
	}
	return 0
}

// childGCPercent trades memory, which is limited, for time.
const childGCPercent = 400

func runChild(ctx context.Context, in io.Reader, newEngine NewEngine) (result, error) {
	os.Clearenv()
	buffered := bufio.NewReader(in)
	var j job
	line, err := buffered.ReadSlice('\n')
	if err != nil {
		return result{}, fmt.Errorf("reading the job: %w", err)
	}
	if err := json.Unmarshal(line, &j); err != nil {
		return result{}, fmt.Errorf("the job is not JSON: %w", err)
	}
	if j.Bytes < 0 || j.Bytes > maxModuleBytes {
		return result{}, fmt.Errorf("a module of %d bytes, at most %d are allowed", j.Bytes, maxModuleBytes)
	}
	// Invariant M5 (host/SECURITY.md): the child limits itself before it reads anything of the
	// module.
	if err := limitProcess(j.Limits, j.Data); err != nil {
		return result{}, fmt.Errorf("limiting the process: %w", err)
	}
	// A caller waits for the result, and the process ends after it; near its limit the collector
	// works harder.
	debug.SetGCPercent(childGCPercent)
	debug.SetMemoryLimit(int64(j.Limits.MemoryBytes / 4 * 3))
	if j.Meter == nil {
		return result{}, compileModule(ctx, j, newEngine)
	}
	wasm := make([]byte, j.Bytes)
	if _, err := io.ReadFull(buffered, wasm); err != nil {
		return result{}, fmt.Errorf("reading the module: %w", err)
	}
	return meterModule(j, wasm)
}

// meterModule writes the metered module, and its outline.
func meterModule(j job, wasm []byte) (result, error) {
	// Invariant M25 (host/SECURITY.md): the metered module has the checked digest.
	if digestOf(wasm) != j.Digest {
		return result{}, errors.New("the module has changed since it was read")
	}
	metered, err := meter.Rewrite(wasm, *j.Meter)
	if err != nil {
		return result{}, &InvalidError{err.Error()}
	}
	outline, err := wasmbin.Outline(metered)
	if err != nil {
		return result{}, err
	}
	err = os.WriteFile(filepath.Join(j.Dir, meteredFile), metered, 0o600)
	if err == nil {
		err = os.WriteFile(filepath.Join(j.Dir, outlineFile), outline, 0o600)
	}
	return result{Digest: digestOf(metered)}, err
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// compileModule puts the machine code of the metered module where the engine looks for that
// of its outline. The engine derives the name from the module's bytes, but not the machine
// code.
func compileModule(ctx context.Context, j job, newEngine NewEngine) error {
	byModule, byOutline := filepath.Join(j.Dir, "module"), filepath.Join(j.Dir, "outline")
	from, err := compileInto(ctx, byModule, filepath.Join(j.Dir, meteredFile), j.Engine, newEngine)
	if err != nil {
		return err
	}
	to, err := compileInto(ctx, byOutline, filepath.Join(j.Dir, outlineFile), j.Engine, newEngine)
	if err != nil {
		return err
	}
	target := filepath.Join(j.Out, to)
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return err
	}
	return os.Rename(filepath.Join(byModule, from), target)
}

// compileInto compiles a file and returns the name of the engine's only file in the
// directory.
func compileInto(ctx context.Context, dir, file, name string, newEngine NewEngine) (left string, err error) {
	wasm, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading the module: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	e, err := newEngine(name, dir)
	if err != nil {
		return "", err
	}
	// The compiler ignores the instances' memory limit: the meter has built it into the module.
	const wholeMemory = 1 << 32
	module, err := e.Compile(ctx, wasm, engine.ModuleConfig{MemoryLimitBytes: wholeMemory})
	if err != nil {
		return "", errors.Join(err, e.Close(ctx))
	}
	if err := errors.Join(module.Close(ctx), e.Close(ctx)); err != nil {
		return "", err
	}
	return onlyFile(dir)
}

func onlyFile(dir string) (name string, err error) {
	files := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		name, err = filepath.Rel(dir, path)
		return err
	})
	if err == nil && files != 1 {
		err = fmt.Errorf("the engine has left %d files of machine code, one is expected", files)
	}
	return name, err
}
