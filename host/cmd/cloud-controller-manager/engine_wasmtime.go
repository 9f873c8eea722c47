//go:build wasmtime

package main

import (
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wasmtime"
)

func newWasmtime(cacheDir string, cachedOnly bool) (engine.Engine, error) {
	return wasmtime.New(wasmtime.Options{CacheDir: cacheDir, CachedOnly: cachedOnly}), nil
}
