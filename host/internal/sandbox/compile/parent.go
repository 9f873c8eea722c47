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
	// Version returns that of an engine in the binary (VersionOf): machine code of
	// another one is not used.
	Version func(engine string) string
	// CacheDir is where the manager's engines look for machine code. It is made
	// when it is not there, and must be the user's own: what lies in it is run.
	CacheDir string
	// Precompiled, unless empty, is a directory of machine code that Export has
	// left: what lies in it is run. It is only read.
	Precompiled string
	// Limits of compilations that have none of their own.
	Limits Limits
	// Quota is that of CacheDir; nil: it has none.
	Quota *quota.Quota
}

// Parent starts children. It is safe for concurrent use; one child runs at a
// time.
type Parent struct {
	options Options
	cache   cache
	turns   turns
	// metering has room for the one who meters.
	metering chan struct{}
	// binary returns the digest of the one that the children run.
	binary func() (string, error)
	// staging begins the names of what this Parent has not finished.
	staging string
	// accepting is held while the cache is changed, and for held, which counts the
	// holders of a key.
	accepting sync.Mutex
	held      map[string]int
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

// firstSlice is how long a child may keep other owners waiting; a child that
// had to yield begins anew, with twice as much.
const firstSlice = 10 * time.Second

// Prepare leaves the machine code of a module in the cache directory, and returns
// the outline of the metered module: the engine's Compile of it compiles nothing.
// A module that has been compiled before costs metering it and reading its machine
// code once, and waits for nobody's compilation. The error is an *InvalidError,
// says what the module needed too much of or what the compiler said, is
// engine.ErrNotCompiled when what was compiled is gone already, or is the
// context's.
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

// obtain takes the machine code over that was compiled before, or compiles it. It
// works in the directory.
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

// knownAs returns what names the metered form of a module, of a size at which that
// is worth knowing; "" of others. Another binary may meter in another way.
func (p *Parent) knownAs(j Job) (string, error) {
	if len(j.Wasm) < largeModule {
		return "", nil
	}
	self, err := p.binary()
	if err != nil {
		return "", fmt.Errorf("compiling apart: %w", err)
	}
	return digestOf(fmt.Appendf(nil, "%s %+v %s %q %q %x", j.Digest, j.Meter, self, j.Engine, p.options.Version(j.Engine), processor())), nil
}

// largeModule is the size of a module that takes longer to meter than the digest
// of the binary takes, once.
const largeModule = 16 << 20

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
	// What it writes is no machine code: the metered module and its outline, each
	// of which is at most so large.
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

// compiled returns when the machine code of the metered module in the directory
// is in the cache.
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
		if !p.cache.has(key) { // the same module may be another owner's, too
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

// compile runs the second child and takes over what it leaves.
func (p *Parent) compile(ctx context.Context, key, dir string, j Job) error {
	work, err := os.MkdirTemp(dir, "child-")
	if err != nil {
		return fmt.Errorf("compiling apart: %w", err)
	}
	defer os.RemoveAll(work)
	// Beside the machine code of the module there is that of its outline, for a
	// moment, which is smaller.
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

// stage links what the first child has left in dir into the directory of the
// second one, and the outline to where it belongs in the cache.
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
