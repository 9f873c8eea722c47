// Package wazero is the engine on github.com/tetratelabs/wazero, in compiler
// mode: pure Go, so that the manager stays one static binary.
//
// It is the only package that touches guest memory. It imports engine and abi
// only.
package wazero

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/engine"
)

const pageBytes = 64 << 10

// Options of the engine.
type Options struct {
	// CacheDir keeps compiled modules between restarts; "" does not. What lies
	// there is run as machine code: only the manager may write to it.
	CacheDir string
	// CloseOnContextDone turns on wazero's own interruption, for modules that
	// are not metered. Only benchmarks compare with it.
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

// Compile compiles a module in a runtime of its own, so that nothing which
// happens to it, or to one of its instances, reaches another module.
func (e *Engine) Compile(ctx context.Context, wasm []byte, config engine.ModuleConfig) (engine.Module, error) {
	m := &module{config: config}
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
	if err := m.compile(ctx, wasm); err != nil {
		return nil, errors.Join(err, m.Close(ctx))
	}
	return m, nil
}

// module implements engine.Module.
type module struct {
	config   engine.ModuleConfig
	runtime  wazero.Runtime
	cache    wazero.CompilationCache
	compiled wazero.CompiledModule
}

func (m *module) compile(ctx context.Context, wasm []byte) (err error) {
	// A compiler that panics on a strange module must not take the manager along.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("compiling the module: the compiler failed: %v", p)
		}
	}()
	if err := instantiateWASI(ctx, m.runtime, m.config); err != nil {
		return fmt.Errorf("wasi: %w", err)
	}
	for _, h := range hostModules() {
		if err := h.instantiate(ctx, m.runtime); err != nil {
			return fmt.Errorf("host module %s: %w", h.name, err)
		}
	}
	compiled, err := m.runtime.CompileModule(ctx, wasm)
	if err != nil {
		return fmt.Errorf("compiling the module: %w", err)
	}
	m.compiled = compiled
	return nil
}

func (m *module) Close(ctx context.Context) error {
	err := m.runtime.Close(ctx)
	if m.cache != nil {
		err = errors.Join(err, m.cache.Close(ctx))
	}
	return err
}

func (m *module) Instantiate(ctx context.Context) (engine.Instance, error) {
	// The clocks are real: the defaults of wazero are fixed. args[0] is what
	// stock Go programs expect to be there.
	config := wazero.NewModuleConfig().
		WithName("").
		WithArgs("provider").
		WithSysWalltime().
		WithSysNanotime().
		WithStartFunctions()
	i := &instance{host: m.config.Host}
	guest, err := m.runtime.InstantiateModule(i.enter(ctx), m.compiled, config)
	if err != nil {
		return nil, fmt.Errorf("instantiating the module: %w", oneLine(ctx, err))
	}
	i.guest = guest
	if err := i.initialize(ctx); err != nil {
		return nil, errors.Join(err, guest.Close(ctx))
	}
	return i, nil
}

// instance implements engine.Instance.
type instance struct {
	host  engine.Host
	guest api.Module
	run   api.Function
	stack [2]uint64
	call  call
	// failed is set by a call that ended with an error: what the guest left
	// half done must not be seen by another op.
	failed bool
}

func (i *instance) initialize(ctx context.Context) error {
	i.run = i.guest.ExportedFunction(abi.ExportCall)
	initialize := i.guest.ExportedFunction(abi.ExportInitialize)
	if i.run == nil || initialize == nil || i.guest.ExportedMemory(abi.ExportMemory) == nil {
		return fmt.Errorf("the module does not export %s, %s and %s", abi.ExportMemory, abi.ExportInitialize, abi.ExportCall)
	}
	if _, err := initialize.Call(i.enter(ctx)); err != nil {
		return fmt.Errorf("%s: %w", abi.ExportInitialize, oneLine(ctx, err))
	}
	return nil
}

// enter starts a call outside of an op: only log and the clock answer.
func (i *instance) enter(ctx context.Context) context.Context {
	i.call = call{host: i.host}
	return &callContext{Context: ctx, call: &i.call}
}

func (i *instance) Call(ctx context.Context, op abi.Op, request []byte) (engine.Result, error) {
	if i.failed {
		return engine.Result{}, errors.New("the instance has failed before and cannot be used again")
	}
	if len(request) > abi.MaxRequestBytes {
		return engine.Result{}, fmt.Errorf("a request of %d bytes, at most %d are allowed", len(request), abi.MaxRequestBytes)
	}
	entered := i.enter(ctx)
	i.call.inOp, i.call.request = true, request
	i.stack = [2]uint64{uint64(op), uint64(len(request))}
	err := i.run.CallWithStack(entered, i.stack[:])
	done := i.call
	i.call = call{}
	if err != nil {
		i.failed = true
		return engine.Result{}, oneLine(ctx, err)
	}
	return engine.Result{
		Code:     abi.Code(uint32(i.stack[0])),
		Response: done.response,
		Detail:   done.detail,
		Fuel:     done.fuel,
	}, nil
}

func (i *instance) MemoryBytes() uint64 { return uint64(i.guest.Memory().Size()) }

func (i *instance) Close(ctx context.Context) error { return i.guest.Close(ctx) }
