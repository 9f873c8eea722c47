//go:build wasmtime

package wasmtime_test

import (
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/engine"
	"github.com/wasm-ccm/wasm-ccm/host/engine/enginetest"
	"github.com/wasm-ccm/wasm-ccm/host/engine/wasmtime"
)

func TestContract(t *testing.T) {
	enginetest.Run(t, func() engine.Engine { return wasmtime.New(wasmtime.Options{}) })
}

func TestContractWithCompilationCache(t *testing.T) {
	dir := t.TempDir()
	enginetest.Run(t, func() engine.Engine { return wasmtime.New(wasmtime.Options{CacheDir: dir}) })
}
