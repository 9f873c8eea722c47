package manager

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"k8s.io/component-base/version"

	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/config"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/compile"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// compileCommand is the hidden first argument with which the manager starts
// itself to compile one module, in a process that may be killed.
const compileCommand = "compile-module"

// modules is what makes modules run.
type modules struct {
	engine engine.Engine
	// compiler is that of one provider.
	compiler func(provider string) plugin.Compiler
}

// newModules returns the engine of --wasm-engine, which finds what the child
// process has compiled in a directory that is ours alone. Remove is for when
// nothing is loaded any more.
func newModules(newEngine NewEngine, options *config.Options) (made modules, remove func(), err error) {
	dir, remove := options.CompilationCacheDir, func() {}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "wasm-ccm-"); err != nil {
			return modules{}, nil, fmt.Errorf("a directory for compiled modules: %w; give --provider-compilation-cache-dir", err)
		}
		remove = func() { _ = os.RemoveAll(dir) } // of no use to anybody
	}
	if made, err = modulesIn(dir, newEngine, options.WasmEngine); err != nil {
		remove()
	}
	return made, remove, err
}

func modulesIn(dir string, newEngine NewEngine, name string) (modules, error) {
	// Invariant M5 (host/SECURITY.md): a module whose machine code is not there is an error here.
	e, err := newEngine(name, dir, true)
	if err != nil {
		return modules{}, err
	}
	binary, err := os.Executable()
	if err != nil {
		return modules{}, errors.Join(errors.New("the manager's own binary, which compiles modules apart"), err)
	}
	parent, err := compile.NewParent(compile.Options{
		Command: []string{binary, compileCommand}, Engine: e.Name(), Version: engineVersion(), CacheDir: dir,
		Limits: compile.DefaultLimits(),
	})
	if err != nil {
		return modules{}, fmt.Errorf("--provider-compilation-cache-dir: %w", err)
	}
	return modules{engine: e, compiler: func(provider string) plugin.Compiler { return parent.For(provider) }}, nil
}

// engineVersion names what machine code depends on beside the module: the
// versions of the engines that this binary is built with.
func engineVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version.Get().String()
	}
	all := info.GoVersion
	for _, dependency := range info.Deps {
		if strings.Contains(dependency.Path, "wazero") || strings.Contains(dependency.Path, "wasmtime") {
			all += " " + dependency.Path + "@" + dependency.Version
		}
	}
	return all
}
