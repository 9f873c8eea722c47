//go:build !wasmtime

package main

import (
	"errors"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

func newWasmtime(string, bool) (engine.Engine, error) {
	return nil, errors.New("--wasm-engine=wasmtime: this manager is built without it; take wazero, or build with CGO_ENABLED=1 and -tags wasmtime")
}
