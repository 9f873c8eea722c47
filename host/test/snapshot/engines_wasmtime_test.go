//go:build wasmtime

package snapshot_test

import (
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wasmtime"
)

func newEngine(cacheDir string) engine.Engine {
	return wasmtime.New(wasmtime.Options{CacheDir: cacheDir})
}
