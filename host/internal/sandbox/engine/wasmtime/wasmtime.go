//go:build wasmtime

package wasmtime

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/bytecodealliance/wasmtime-go/v44"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/imports"
)

const pageBytes = 64 << 10

// Options of the engine.
type Options struct {
	// CacheDir keeps compiled modules across restarts; "": none. Its files are run as machine
	// code: only the manager may write to it.
	CacheDir string
	// CachedOnly compiles nothing: a module outside of CacheDir is an engine.ErrNotCompiled.
	CachedOnly bool
}

// Engine implements engine.Engine.
type Engine struct {
	options Options
}

// New returns the engine. It holds nothing until a module is compiled.
func New(options Options) *Engine { return &Engine{options: options} }

// Name returns "wasmtime".
func (*Engine) Name() string { return "wasmtime" }

// Close does nothing: modules share nothing.
func (*Engine) Close(context.Context) error { return nil }

// Compile compiles a module in an engine of its own. The compiler ignores the context:
// bounds on its time and memory need a process of its own, over the same CacheDir.
func (e *Engine) Compile(ctx context.Context, wasm []byte, config engine.ModuleConfig) (engine.Module, error) {
	if err := checkThreadStack(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("compiling the module: %w", err)
	}
	m := &module{config: config, guest: imports.NewGuest(config), engine: wasmtime.NewEngineWithConfig(Features())}
	err := m.link()
	if err == nil {
		m.compiled, err = cache{e.options.CacheDir, e.options.CachedOnly}.compile(m.engine, wasm)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("compiling the module: %w", err), m.Close(ctx))
	}
	return m, nil
}

// module implements engine.Module.
type module struct {
	config   engine.ModuleConfig
	guest    *imports.Guest
	engine   *wasmtime.Engine
	linker   *wasmtime.Linker
	compiled *wasmtime.Module
	closed   atomic.Bool
}

// link defines the module's imports.
func (m *module) link() error {
	m.linker = wasmtime.NewLinker(m.engine)
	for _, f := range imports.Functions() {
		// The library reads the type at each call: it must not be closed.
		functionType := wasmtime.NewFuncType(valueTypes(f.Params), valueTypes(f.Results))
		if err := m.linker.FuncNew(f.Module, f.Name, functionType, run(f)); err != nil {
			return fmt.Errorf("import %s.%s: %w", f.Module, f.Name, err)
		}
	}
	return nil
}

func valueTypes(types []imports.ValueType) []*wasmtime.ValType {
	converted := make([]*wasmtime.ValType, len(types))
	for i, t := range types {
		kind := wasmtime.KindI32
		if t == imports.I64 {
			kind = wasmtime.KindI64
		}
		converted[i] = wasmtime.NewValType(kind)
	}
	return converted
}

// Close frees the compiled code, before the library's finalizers would.
func (m *module) Close(context.Context) error {
	if m.closed.Swap(true) {
		return nil
	}
	if m.compiled != nil {
		m.compiled.Close()
	}
	m.linker.Close()
	m.engine.Close()
	return nil
}

// Instantiate makes an instance in a store of its own.
func (m *module) Instantiate(ctx context.Context) (engine.Instance, error) {
	i, err := m.instantiate(ctx)
	if err != nil {
		return nil, err
	}
	if err := i.start(ctx, abi.ExportInitialize); err != nil {
		i.store.Close()
		return nil, err
	}
	return i, nil
}

// instantiate makes an instance without running its code.
func (m *module) instantiate(ctx context.Context) (*instance, error) {
	if m.closed.Load() {
		return nil, errors.New("instantiating the module: it is closed")
	}
	i := &instance{module: m, guest: m.guest}
	i.store = wasmtime.NewStoreWithData(m.engine, i)
	i.store.Limiter(int64(m.config.MemoryLimitBytes/pageBytes*pageBytes), maxTableElements, 1, maxTables, 1)
	if err := i.instantiate(ctx); err != nil {
		i.store.Close()
		return nil, err
	}
	return i, nil
}
