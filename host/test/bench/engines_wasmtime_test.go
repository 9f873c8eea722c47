//go:build wasmtime

package bench_test

import (
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wasmtime"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wazero"
)

func engines(t *testing.T) map[string]engine.Engine {
	return map[string]engine.Engine{
		"wazero":   wazero.New(wazero.Options{CacheDir: t.TempDir()}),
		"wasmtime": wasmtime.New(wasmtime.Options{CacheDir: t.TempDir()}),
	}
}
