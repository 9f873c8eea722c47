//go:build !wasmtime

package hostile_test

import (
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wazero"
)

// engines is the engine that this build is for; the build with the tag has the
// other.
func engines() []engineCase {
	return []engineCase{{"wazero", func(cacheDir string) engine.Engine { return wazero.New(wazero.Options{CacheDir: cacheDir}) }}}
}
