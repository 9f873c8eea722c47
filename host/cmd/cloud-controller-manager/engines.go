package main

import (
	"fmt"

	"github.com/wasm-ccm/wasm-ccm/host/engine"
	"github.com/wasm-ccm/wasm-ccm/host/engine/wazero"
)

// newCompiler returns the engine of --wasm-engine, for the process that
// compiles into the directory.
func newCompiler(name, cacheDir string) (engine.Engine, error) {
	return newEngine(name, cacheDir, false)
}

// newEngine returns the engine of --wasm-engine. With cachedOnly it compiles
// nothing itself.
func newEngine(name, cacheDir string, cachedOnly bool) (engine.Engine, error) {
	switch name {
	case "wazero":
		return wazero.New(wazero.Options{CacheDir: cacheDir, CachedOnly: cachedOnly}), nil
	case "wasmtime":
		return newWasmtime(cacheDir, cachedOnly)
	}
	return nil, fmt.Errorf("--wasm-engine %q: must be wazero or wasmtime", name)
}
