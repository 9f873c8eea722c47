// Package wazero is the engine on github.com/tetratelabs/wazero, in compiler
// mode: pure Go, so that the manager stays one static binary.
//
// It is the only package that touches guest memory. It imports engine and abi
// only.
package wazero

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

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

func (m *module) compile(ctx context.Context, wasm []byte) error {
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, m.runtime); err != nil {
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
	// No file system, no sockets, no environment. The clock and random numbers
	// are real: the defaults of wazero are fixed. Sleeping returns at once.
	config := wazero.NewModuleConfig().
		WithName("").
		WithArgs("provider").
		WithStdout(orDiscard(m.config.Stdout)).
		WithStderr(orDiscard(m.config.Stderr)).
		WithRandSource(rand.Reader).
		WithSysWalltime().
		WithSysNanotime().
		WithStartFunctions()
	i := &instance{host: m.config.Host}
	guest, err := m.runtime.InstantiateModule(i.enter(ctx), m.compiled, config)
	if err != nil {
		return nil, oneLine(ctx, "instantiating the module", err)
	}
	i.guest = guest
	if err := i.initialize(ctx); err != nil {
		return nil, errors.Join(err, guest.Close(ctx))
	}
	return i, nil
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// instance implements engine.Instance.
type instance struct {
	host  engine.Host
	guest api.Module
	run   api.Function
	stack [2]uint64
	call  call
}

func (i *instance) initialize(ctx context.Context) error {
	i.run = i.guest.ExportedFunction(abi.ExportCall)
	initialize := i.guest.ExportedFunction(abi.ExportInitialize)
	if i.run == nil || initialize == nil {
		return fmt.Errorf("the module does not export %s and %s", abi.ExportInitialize, abi.ExportCall)
	}
	if _, err := initialize.Call(i.enter(ctx)); err != nil {
		return oneLine(ctx, abi.ExportInitialize, err)
	}
	return nil
}

// enter starts a call outside of an op: only log and the clock answer.
func (i *instance) enter(ctx context.Context) context.Context {
	i.call = call{host: i.host}
	return &callContext{Context: ctx, call: &i.call}
}

func (i *instance) Call(ctx context.Context, op abi.Op, request []byte) (engine.Result, error) {
	entered := i.enter(ctx)
	i.call.inOp, i.call.request = true, request
	i.stack = [2]uint64{uint64(op), uint64(len(request))}
	if err := i.run.CallWithStack(entered, i.stack[:]); err != nil {
		return engine.Result{}, oneLine(ctx, op.String(), err)
	}
	i.call.inOp = false
	result := engine.Result{
		Code:     abi.Code(uint32(i.stack[0])),
		Response: i.call.response,
		Detail:   i.call.detail,
		Fuel:     i.call.fuel,
	}
	i.call = call{}
	return result, nil
}

func (i *instance) MemoryBytes() uint64 { return uint64(i.guest.Memory().Size()) }

func (i *instance) Close(ctx context.Context) error { return i.guest.Close(ctx) }
