// Package wazero is the engine on github.com/tetratelabs/wazero, in compiler
// mode: pure Go, so that the manager stays one static binary.
package wazero

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/image"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/imports"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

const pageBytes = 64 << 10

// Options of the engine.
type Options struct {
	// CacheDir keeps compiled modules across restarts; "": none. Its files are run as machine
	// code: only the manager may write to it.
	CacheDir string
	// CachedOnly compiles nothing: a module outside of CacheDir is an engine.ErrNotCompiled.
	CachedOnly bool
	// CloseOnContextDone turns on wazero's own interruption, for unmetered modules. Only
	// benchmarks use it.
	CloseOnContextDone bool
}

// Engine implements engine.Engine.
type Engine struct {
	options Options
}

// New returns the engine. It holds nothing until a module is compiled.
func New(options Options) *Engine { return &Engine{options: options} }

// Name returns "wazero".
func (*Engine) Name() string { return "wazero" }

// Close does nothing: modules share nothing.
func (*Engine) Close(context.Context) error { return nil }

// Compile compiles a module in a runtime of its own, so that a failure of it or of an
// instance cannot reach another module.
func (e *Engine) Compile(ctx context.Context, wasm []byte, config engine.ModuleConfig) (engine.Module, error) {
	m := &module{guest: imports.NewGuest(config), memoryLimit: config.MemoryLimitBytes}
	runtimeConfig := wazero.NewRuntimeConfigCompiler().
		WithMemoryLimitPages(uint32(min(config.MemoryLimitBytes/pageBytes, 1<<16))).
		WithCloseOnContextDone(e.options.CloseOnContextDone).
		WithCustomSections(false)
	if e.options.CacheDir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(e.options.CacheDir)
		if err != nil {
			return nil, fmt.Errorf("compilation cache %s: %w", e.options.CacheDir, err)
		}
		m.cache = cache
		runtimeConfig = runtimeConfig.WithCompilationCache(cache)
	}
	m.runtime = wazero.NewRuntimeWithConfig(ctx, runtimeConfig)
	err := m.compile(ctx, e.compiling(ctx), wasm)
	if err == nil {
		err = mapCode(ctx, m.compiled, e.options.CacheDir)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close(ctx))
	}
	return m, nil
}

// compiling is the context of compilations. wazero's workers end with it; a lookup in the
// cache ignores it.
func (e *Engine) compiling(ctx context.Context) context.Context {
	workers := runtime.GOMAXPROCS(0)
	if e.options.CachedOnly {
		ended, end := context.WithCancelCause(ctx)
		end(engine.ErrNotCompiled)
		ctx, workers = ended, max(workers, 2) // a single worker would ignore the context
	}
	return experimental.WithCompilationWorkers(ctx, workers)
}

// module implements engine.Module.
type module struct {
	guest       *imports.Guest
	runtime     wazero.Runtime
	cache       wazero.CompilationCache
	compiled    wazero.CompiledModule
	memoryLimit uint64
	// begins is the initial memory of each instance, or nil.
	begins *image.Image
}

func (m *module) compile(ctx, compiling context.Context, wasm []byte) (err error) {
	// A compiler's panic on a strange module must not end the manager.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("compiling the module: the compiler failed: %v", p)
		}
	}()
	if err := instantiateImports(ctx, m.runtime); err != nil {
		return fmt.Errorf("host modules: %w", err)
	}
	wasm, err = m.takeData(wasm)
	if err != nil {
		return fmt.Errorf("the data of the module: %w", err)
	}
	compiled, err := m.runtime.CompileModule(compiling, wasm)
	if err != nil {
		return fmt.Errorf("compiling the module: %w", err)
	}
	m.compiled = compiled
	return nil
}

// takeData removes the data from a module: the runtime would keep a copy and make another
// for each instance.
func (m *module) takeData(wasm []byte) (rest []byte, err error) {
	rest, begins, ok := wasmbin.SplitData(wasm)
	if !ok || begins.Size > m.memoryLimit {
		return wasm, nil
	}
	m.begins, err = image.New(int(begins.Size), func(memory []byte) {
		for _, p := range begins.Parts {
			copy(memory[p.Offset:], p.Data)
		}
	})
	return rest, err
}

func (m *module) Close(ctx context.Context) error {
	err := m.runtime.Close(ctx)
	if m.begins != nil {
		err = errors.Join(err, m.begins.Close())
	}
	if m.cache != nil {
		err = errors.Join(err, m.cache.Close(ctx))
	}
	return err
}

func (m *module) Instantiate(ctx context.Context) (engine.Instance, error) {
	i, err := m.instantiate(ctx, m.begins)
	if err != nil {
		return nil, err
	}
	if err := i.start(ctx, abi.ExportInitialize); err != nil {
		return nil, errors.Join(err, i.guest.Close(ctx))
	}
	return i, nil
}

// instantiate makes an instance without running its code; its memory begins with an image,
// or with zeros.
func (m *module) instantiate(ctx context.Context, begins *image.Image) (*instance, error) {
	i := &instance{module: m, shared: m.guest, linear: memory{begins: begins}}
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	i.call.Outside(i.shared)
	guest, err := guarded(func() (api.Module, error) {
		return m.runtime.InstantiateModule(withMemory(i.context(ctx), &i.linear), m.compiled, config)
	})
	if err != nil {
		i.linear.Free()
		return nil, fmt.Errorf("instantiating the module: %w", i.call.Crash(ctx, err, framesOf(err)))
	}
	i.guest, i.memory = guest, guest.Memory()
	return i, nil
}

// guarded turns the runtime's panic into an error, for example after a failed allocation.
func guarded(instantiate func() (api.Module, error)) (guest api.Module, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the engine failed: %v", p)
		}
	}()
	return instantiate()
}

// instance implements engine.Instance.
type instance struct {
	module *module
	shared *imports.Guest
	guest  api.Module
	memory imports.Memory
	linear memory
	run    api.Function
	stack  [2]uint64
	gate   imports.Gate
	call   imports.Call
}

// start runs the export for initialisation.
func (i *instance) start(ctx context.Context, name string) error {
	i.run = i.guest.ExportedFunction(abi.ExportCall)
	first := i.guest.ExportedFunction(name)
	if i.run == nil || first == nil || i.guest.ExportedMemory(abi.ExportMemory) == nil {
		return imports.ErrExports
	}
	i.call.Outside(i.shared)
	if _, err := first.Call(i.context(ctx)); err != nil {
		return fmt.Errorf("%s: %w", name, i.call.Crash(ctx, err, framesOf(err)))
	}
	return nil
}

func (i *instance) context(ctx context.Context) context.Context {
	return &callContext{Context: ctx, instance: i}
}

func (i *instance) Call(ctx context.Context, op abi.Op, request []byte) (engine.Result, error) {
	if err := i.gate.Enter(len(request)); err != nil {
		return engine.Result{}, err
	}
	i.stack = [2]uint64{uint64(op), uint64(len(request))}
	i.call.Op(i.shared, request)
	err := i.run.CallWithStack(i.context(ctx), i.stack[:])
	result := i.call.Answer(uint32(i.stack[0]))
	if err != nil {
		result, err = engine.Result{}, i.call.Crash(ctx, err, framesOf(err))
	}
	i.call.End()
	i.gate.Leave(err != nil)
	return result, err
}

func (i *instance) MemoryBytes() uint64 {
	if i.gate.Closed() {
		return 0
	}
	return uint64(i.guest.Memory().Size())
}

func (i *instance) Close(ctx context.Context) error {
	if first, err := i.gate.Close(); !first {
		return err
	}
	return i.guest.Close(ctx)
}
