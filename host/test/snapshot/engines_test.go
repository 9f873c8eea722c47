//go:build !wasmtime

package snapshot_test

import (
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wazero"
)

func newEngine(cacheDir string) engine.Engine { return wazero.New(wazero.Options{CacheDir: cacheDir}) }
