package manager

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/config"
	"github.com/wasm-ccm/wasm-ccm/host/internal/quota"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/compile"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
)

// compileCommand is the hidden first argument with which the manager starts
// itself to compile one module, in a process that may be killed.
const compileCommand = "compile-module"

// NewEngine returns the engine with that name, which keeps machine code in a
// directory. With cachedOnly it compiles nothing itself. Thus the manager
// depends on no engine, and the command chooses the available ones.
type NewEngine func(name, cacheDir string, cachedOnly bool) (engine.Engine, error)

// modules are the parts that load modules.
type modules struct {
	// engine returns the engine with that name, that of --wasm-engine for "".
	engine func(name string) (engine.Engine, error)
	// compiler returns the compiler of one provider.
	compiler func(provider string) plugin.Compiler
	// store has the modules that are too large for memory; nil: none.
	store *source.Store
}

// newModules returns engines that read the child process's machine code from a
// private directory. Remove is for when no module is loaded any more.
func newModules(newEngine NewEngine, options *config.Options) (made modules, remove func(), err error) {
	dir, remove := options.CompilationCacheDir, func() {}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "wasm-ccm-"); err != nil {
			return modules{}, nil, fmt.Errorf("a directory for compiled modules: %w; give --provider-compilation-cache-dir", err)
		}
		remove = func() { _ = os.RemoveAll(dir) } // nobody needs it afterwards
	}
	if made, err = modulesIn(dir, newEngine, options); err != nil {
		remove()
	}
	return made, remove, err
}

func modulesIn(dir string, newEngine NewEngine, options *config.Options) (modules, error) {
	engineOf := func(name string) (engine.Engine, error) {
		// Invariant M5 (host/SECURITY.md): a module whose machine code is not there is an error here.
		return newEngine(cmp.Or(name, options.WasmEngine), dir, true)
	}
	if _, err := engineOf(""); err != nil {
		return modules{}, fmt.Errorf("--wasm-engine: %w", err)
	}
	self, err := compile.Self()
	if err != nil {
		return modules{}, err
	}
	room := quota.New(dir, options.CompilationCacheSize.Value())
	parent, err := compile.NewParent(compile.Options{
		Command: []string{self, compileCommand}, Version: engineVersion, CacheDir: dir, Precompiled: options.PrecompiledDir,
		Limits: compile.DefaultLimits(), Quota: room,
	})
	if err != nil {
		return modules{}, fmt.Errorf("--provider-compilation-cache-dir: %w", err)
	}
	store, err := source.NewStore(filepath.Join(dir, "modules"), room)
	if err != nil {
		return modules{}, fmt.Errorf("--provider-compilation-cache-dir: %w", err)
	}
	return modules{engine: engineOf, store: store, compiler: func(provider string) plugin.Compiler { return parent.For(provider) }}, nil
}

// engineVersion is the version of an engine in this binary.
func engineVersion(name string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return compile.VersionOf(info, name)
	}
	return version.Release()
}
