//go:build wasmtime

package hostile_test

import (
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wasmtime"
)

// engines is the engine that this build is for; the build without the tag has
// the other.
func engines() []engineCase {
	return []engineCase{{"wasmtime", func(cacheDir string) engine.Engine {
		return wasmtime.New(wasmtime.Options{CacheDir: cacheDir})
	}}}
}
