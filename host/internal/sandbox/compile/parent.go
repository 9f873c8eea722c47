package compile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/quota"
)

// Options of a Parent. All but Precompiled are needed.
type Options struct {
	// Command is the binary and its arguments that run RunChild, e.g. what
	// Self returns and the hidden subcommand.
	Command []string
	// Version returns an engine's version in the binary (VersionOf): machine code of another
	// version is not used.
	Version func(engine string) string
	// CacheDir is where the manager's engines look for machine code. It is created if missing,
	// and must be the user's own: its machine code is run.
	CacheDir string
	// Precompiled, unless empty, is a directory of machine code made by Export, which is run. It
	// is only read.
	Precompiled string
	// Limits of compilations without limits of their own.
	Limits Limits
	// Quota is CacheDir's; nil: none.
	Quota *quota.Quota
}

// Parent starts children. It is safe for concurrent use; one child runs at a
// time.
type Parent struct {
	options Options
	cache   cache
	turns   turns
	// metering has room for one child that meters.
	metering chan struct{}
	// binary returns the digest of the children's binary.
	binary func() (string, error)
	// staging is the name prefix of this Parent's unfinished files.
	staging string
	// accepting guards the cache during changes, and held, which counts the holders of a key.
	accepting sync.Mutex
	held      map[string]int
}

// Owner compiles for one of several owners, which take turns on a Parent. It is safe for
// concurrent use.
type Owner struct {
	parent *Parent
	name   string
}

// For returns the Owner of that name, e.g. a provider. The names are remembered.
func (p *Parent) For(name string) *Owner { return &Owner{p, name} }

// NewParent checks the options and creates the cache directory.
func NewParent(o Options) (*Parent, error) {
	if len(o.Command) == 0 || o.Version == nil || !o.Limits.complete() {
		return nil, errors.New("compile: a command, a version and all limits are needed")
	}
	dir, err := privateDir(o.CacheDir)
	if err != nil {
		return nil, fmt.Errorf("compilation cache: %w", err)
	}
	o.CacheDir = dir
	if err := checkPrecompiled(o.Precompiled); err != nil {
		return nil, err
	}
	p := &Parent{options: o, cache: cache{dir: dir}, metering: make(chan struct{}, 1), staging: stagingPrefix + rand.Text() + "-", held: map[string]int{}}
	p.binary = sync.OnceValues(func() (string, error) { return digest(o.Command[0]) })
	if err := p.cache.sweep(); err != nil {
		return nil, fmt.Errorf("compilation cache: %w", err)
	}
	o.Quota.Join(p)
	return p, nil
}

// firstSlice is how long a child may keep other owners waiting; after yielding, it starts
// again with twice as much.
const firstSlice = 10 * time.Second

// Prepare puts the machine code of a module into the cache directory, and returns the
// outline of the metered module: the engine's Compile of the outline compiles nothing. A
// module that this binary compiled before only costs reading its machine code once, and waits
// for no other compilation. The error is an *InvalidError, names the exceeded limit or
// quotes the compiler, is engine.ErrNotCompiled if the machine code is gone already, or is
// the context's.
func (o *Owner) Prepare(ctx context.Context, j Job) (outline []byte, err error) {
	hold := &Hold{}
	key, err := o.prepare(ctx, j, hold)
	if err == nil {
		outline, err = o.parent.cache.outline(key)
	}
	if err == nil && j.Hold != nil {
		j.Hold.take(hold.Release)
		return outline, nil
	}
	hold.Release()
	return outline, err
}

// prepare returns the key of the machine code, which it holds.
func (o *Owner) prepare(ctx context.Context, j Job, hold *Hold) (key string, err error) {
	p := o.parent
	if j.Limits == (Limits{}) {
		j.Limits = p.options.Limits
	}
	if !j.Limits.complete() || j.Engine == "" {
		return "", errors.New("compile: an engine and all limits are needed")
	}
	if len(j.Wasm) > maxModuleBytes {
		return "", fmt.Errorf("a module of %d bytes cannot be compiled, at most %d are allowed", len(j.Wasm), maxModuleBytes)
	}
	known, err := p.knownAs(j)
	if err != nil {
		return "", err
	}
	if key := p.cache.known(known); key != "" && !j.Anew {
		hold.take(p.hold(key))
		if p.cache.has(key) {
			j.metered()
			return key, nil
		}
	}
	dir, err := os.MkdirTemp(p.options.CacheDir, p.staging)
	if err != nil {
		return "", fmt.Errorf("compiling apart: %w", err)
	}
	defer os.RemoveAll(dir)
	if key, err = o.obtain(ctx, dir, j, hold); err == nil {
		p.cache.know(known, key)
	}
	return key, err
}

// obtain takes over existing machine code, or compiles it. It works in the directory.
func (o *Owner) obtain(ctx context.Context, dir string, j Job, hold *Hold) (key string, err error) {
	p := o.parent
	if key := p.adopt(ctx, j, dir, hold); key != "" {
		j.metered()
		return key, nil
	}
	metered, err := p.meter(ctx, dir, j)
	if err != nil {
		return "", err
	}
	j.metered()
	key = cacheKey(metered, j.Engine, p.options.Version(j.Engine))
	hold.take(p.hold(key))
	if j.Anew {
		p.forget(key)
	}
	return key, o.compiled(ctx, key, dir, j)
}

// knownAs returns the name under which to remember the metered form of a module. Another
// binary may meter differently.
func (p *Parent) knownAs(j Job) (string, error) {
	self, err := p.binary()
	if err != nil {
		return "", fmt.Errorf("compiling apart: %w", err)
	}
	return digestOf(fmt.Appendf(nil, "%s %+v %s %q %q %x", j.Digest, j.Meter, self, j.Engine, p.options.Version(j.Engine), processor())), nil
}

// meter runs the first child, and returns the digest of the metered module. Only
// one runs at a time, for a time that grows with the module.
func (p *Parent) meter(ctx context.Context, dir string, j Job) (digest string, err error) {
	select {
	case p.metering <- struct{}{}:
	case <-ctx.Done():
		return "", fmt.Errorf("metering the module was given up before its turn: %w", ctx.Err())
	}
	defer func() { <-p.metering }()
	job := job{Limits: j.Limits, Meter: &j.Meter, Bytes: int64(len(j.Wasm)), Digest: j.Digest, Dir: dir}
	job.Limits.Wall = min(job.Limits.Wall, maxMetering)
	// Its output is no machine code: the metered module and its outline, each with this bound.
	job.Limits.OutputBytes = uint64(2*len(j.Wasm)) + freeOutput
	limits, release, err := p.reserve(dir, job.Limits, 2)
	if err != nil {
		return "", err
	}
	defer release()
	job.Limits = limits
	r, err := run(ctx, p.options.Command, job, j.Wasm)
	return r.Digest, err
}

const (
	// maxMetering bounds the time of the first child.
	maxMetering = time.Minute
	freeOutput  = 16 << 20
)

// compiled returns when the cache has the machine code of the metered module in the
// directory.
func (o *Owner) compiled(ctx context.Context, key, dir string, j Job) error {
	p := o.parent
	for slice := firstSlice; ; slice *= 2 {
		if p.cache.has(key) {
			return nil
		}
		held, leave, err := p.turns.take(ctx, o.name, slice)
		if err != nil {
			return err
		}
		if !p.cache.has(key) { // another owner may have compiled it meanwhile
			err = p.compile(held, key, dir, j)
		}
		leave()
		if err == nil || ctx.Err() != nil || !errors.Is(context.Cause(held), errYield) {
			return err
		}
	}
}

func (p *Parent) forget(key string) {
	p.accepting.Lock()
	defer p.accepting.Unlock()
	p.cache.forget(key)
}

// compile runs the second child and takes over its output.
func (p *Parent) compile(ctx context.Context, key, dir string, j Job) error {
	work, err := os.MkdirTemp(dir, "child-")
	if err != nil {
		return fmt.Errorf("compiling apart: %w", err)
	}
	defer os.RemoveAll(work)
	// Beside the module's machine code the outline's exists for a moment, and is smaller.
	limits, release, err := p.reserve(work, j.Limits, 1)
	if err != nil {
		return err
	}
	defer release()
	out := filepath.Join(work, "out")
	if err := stage(dir, work, filepath.Join(out, outline(key))); err != nil {
		return fmt.Errorf("compiling apart: %w", err)
	}
	data, err := os.Stat(filepath.Join(work, meteredFile))
	if err != nil {
		return fmt.Errorf("compiling apart: %w", err)
	}
	if _, err := run(ctx, p.options.Command, job{Limits: limits, Engine: j.Engine, Dir: work, Out: out, Data: uint64(data.Size())}, nil); err != nil {
		return err
	}
	if err := limits.check(out); err != nil {
		return err
	}
	p.accepting.Lock()
	defer p.accepting.Unlock()
	if err := p.cache.accept(key, out); err != nil {
		return fmt.Errorf("compilation cache: %w", err)
	}
	p.cache.prune(p.isHeld)
	return nil
}

// stage links the first child's output in dir into the second child's directory, and the
// outline to its place in the cache.
func stage(dir, work, outline string) error {
	if err := os.MkdirAll(filepath.Dir(outline), 0o700); err != nil {
		return err
	}
	for from, to := range map[string]string{meteredFile: filepath.Join(work, meteredFile), outlineFile: filepath.Join(work, outlineFile)} {
		if err := os.Link(filepath.Join(dir, from), to); err != nil {
			return err
		}
	}
	return os.Link(filepath.Join(dir, outlineFile), outline)
}
