package main

import (
	"fmt"

	"github.com/wasm-ccm/wasm-ccm/host/engine"
	"github.com/wasm-ccm/wasm-ccm/host/engine/wazero"
)

// newEngine returns the engine of --wasm-engine.
func newEngine(name, cacheDir string) (engine.Engine, error) {
	switch name {
	case "wazero":
		return wazero.New(wazero.Options{CacheDir: cacheDir}), nil
	case "wasmtime":
		return newWasmtime(cacheDir)
	}
	return nil, fmt.Errorf("--wasm-engine %q: must be wazero or wasmtime", name)
}
