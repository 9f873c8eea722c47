//go:build wasmtime

package hostile_test

import (
	"github.com/wasm-ccm/wasm-ccm/host/engine"
	"github.com/wasm-ccm/wasm-ccm/host/engine/wasmtime"
)

// engines are the engines that this build has.
func engines() []engineCase {
	return []engineCase{wazeroEngine(), {"wasmtime", func(cacheDir string) engine.Engine {
		return wasmtime.New(wasmtime.Options{CacheDir: cacheDir})
	}}}
}
