//go:build !wasmtime

package main

import (
	"errors"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

func newWasmtime(string, bool) (engine.Engine, error) {
	return nil, errors.New("this manager is built without wasmtime: take wazero, or a manager that has both (make build-both)")
}
