package compile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Options of a Parent. All but Version are needed.
type Options struct {
	// Command is the binary and its arguments that run RunChild, e.g. what
	// os.Executable returns and the hidden subcommand.
	Command []string
	// Engine is the name of the engine that the child compiles with.
	Engine string
	// Version of the engine, or of the whole binary: machine code of another
	// one is not used.
	Version string
	// CacheDir is where the manager's engine looks for machine code. It is made
	// when it is not there, and must be the user's own: what lies in it is run.
	CacheDir string
	Limits   Limits
}

// Parent starts children. It is safe for concurrent use; one child runs at a
// time.
type Parent struct {
	options Options
	cache   cache
	turns   turns
	// accepting is held while the cache is changed.
	accepting sync.Mutex
}

// Owner compiles for one of those who share a Parent, and take turns. It is
// safe for concurrent use.
type Owner struct {
	parent *Parent
	name   string
}

// For returns what compiles for an owner of that name, e.g. a provider. The
// names are remembered.
func (p *Parent) For(name string) *Owner { return &Owner{p, name} }

// NewParent checks the options and makes the cache directory.
func NewParent(o Options) (*Parent, error) {
	l := o.Limits
	if len(o.Command) == 0 || o.Engine == "" || l.Wall <= 0 || l.CPU <= 0 || l.MemoryBytes == 0 || l.OutputBytes == 0 {
		return nil, errors.New("compile: a command, an engine and all limits are needed")
	}
	dir, err := privateDir(o.CacheDir)
	if err != nil {
		return nil, fmt.Errorf("compilation cache: %w", err)
	}
	o.CacheDir = dir
	p := &Parent{options: o, cache: cache{dir: dir}}
	if err := p.cache.sweep(); err != nil {
		return nil, fmt.Errorf("compilation cache: %w", err)
	}
	return p, nil
}

// firstSlice is how long a child may keep other owners waiting; a child that
// had to yield begins anew, with twice as much.
const firstSlice = 10 * time.Second

// Prepare leaves the machine code of a module in the cache directory, so that
// the engine's Compile of the same bytes compiles nothing. A module that has
// been compiled before costs reading its machine code once, and waits for
// nobody. The error says what the module needed too much of, what the compiler
// said, or is the context's.
func (o *Owner) Prepare(ctx context.Context, wasm []byte) error {
	p := o.parent
	if len(wasm) > maxModuleBytes {
		return fmt.Errorf("a module of %d bytes cannot be compiled, at most %d are allowed", len(wasm), maxModuleBytes)
	}
	key := cacheKey(wasm, p.options.Engine, p.options.Version)
	for slice := firstSlice; ; slice *= 2 {
		if p.cache.has(key) {
			return nil
		}
		held, leave, err := p.turns.take(ctx, o.name, slice)
		if err != nil {
			return err
		}
		if !p.cache.has(key) { // the same module may be another owner's, too
			err = p.compile(held, key, wasm)
		}
		leave()
		if err == nil || ctx.Err() != nil || !errors.Is(context.Cause(held), errYield) {
			return err
		}
	}
}

// compile runs a child and takes over what it leaves.
func (p *Parent) compile(ctx context.Context, key string, wasm []byte) error {
	staging, err := os.MkdirTemp(p.options.CacheDir, stagingPrefix)
	if err != nil {
		return fmt.Errorf("compiling apart: %w", err)
	}
	defer os.RemoveAll(staging)
	if err := p.run(ctx, staging, wasm); err != nil {
		return err
	}
	p.accepting.Lock()
	defer p.accepting.Unlock()
	if err := p.cache.accept(key, staging); err != nil {
		return fmt.Errorf("compilation cache: %w", err)
	}
	return nil
}

// run runs one child.
func (p *Parent) run(ctx context.Context, cacheDir string, wasm []byte) error {
	header, err := json.Marshal(job{Engine: p.options.Engine, CacheDir: cacheDir, Bytes: int64(len(wasm)), Limits: p.options.Limits})
	if err != nil {
		return fmt.Errorf("compiling apart: %w", err)
	}
	timed, cancel := context.WithTimeout(ctx, p.options.Limits.Wall)
	defer cancel()
	// The child ends with the thread that has started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(timed, p.options.Command[0], p.options.Command[1:]...)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = []string{}, "/", attributes()
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Stdin = io.MultiReader(bytes.NewReader(append(header, '\n')), bytes.NewReader(wasm))
	stdout, stderr := &bounded{limit: maxResultBytes}, &bounded{limit: maxStderrBytes}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	runErr := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("compiling the module was given up: %w", ctx.Err())
	case timed.Err() != nil:
		return fmt.Errorf("compiling the module took more than %v; make it smaller", p.options.Limits.Wall)
	}
	return p.outcome(cmd.ProcessState, runErr, stdout.data, stderr.data)
}

// outcome reads what a child that ended by itself has said.
func (p *Parent) outcome(state *os.ProcessState, runErr error, stdout, stderr []byte) error {
	r := result{}
	unread := json.Unmarshal(stdout, &r)
	if unread == nil && runErr == nil && r.Error == "" {
		return nil
	}
	if err := p.exceeded(state, r.Error+string(stderr)); err != nil {
		return err
	}
	if unread == nil && r.Error != "" {
		return errors.New(text.Line(r.Error, maxErrorBytes))
	}
	// It ended without a word: what Go's runtime says of that is its first line.
	line, _, _ := strings.Cut(string(stderr), "\n")
	if runErr == nil {
		return fmt.Errorf("the compiling process ended without a result: %q", line)
	}
	return fmt.Errorf("the compiling process failed: %w: %q; the module may need too much, or the pod has too little memory", runErr, line)
}

// exceeded tells which limit the child has met, from what is left of it.
func (p *Parent) exceeded(state *os.ProcessState, text string) error {
	contains := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
	}
	l := p.options.Limits
	switch {
	case contains("out of memory", "cannot allocate memory", "failed to create new OS thread"):
		return fmt.Errorf("compiling the module took more than %s of memory; make it smaller", mebibytes(l.MemoryBytes))
	case contains("SIGXFSZ", "file too large"):
		return fmt.Errorf("the module's machine code is larger than %s; make the module smaller", mebibytes(l.OutputBytes))
	case state != nil && state.UserTime()+state.SystemTime() >= l.CPU, contains("SIGXCPU"):
		return fmt.Errorf("compiling the module took more than %v of processor time; make it smaller", l.CPU)
	}
	return nil
}

// bounded keeps the beginning of what is written.
type bounded struct {
	data  []byte
	limit int
}

func (b *bounded) Write(p []byte) (int, error) {
	b.data = append(b.data, p[:min(len(p), b.limit-len(b.data))]...)
	return len(p), nil
}
