package main

import (
	"fmt"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wazero"
)

// newEngine implements manager.NewEngine.
func newEngine(name, cacheDir string, cachedOnly bool) (engine.Engine, error) {
	switch name {
	case "wazero":
		return wazero.New(wazero.Options{CacheDir: cacheDir, CachedOnly: cachedOnly}), nil
	case "wasmtime":
		return newWasmtime(cacheDir, cachedOnly)
	}
	return nil, fmt.Errorf("%q: must be wazero or wasmtime", name)
}
