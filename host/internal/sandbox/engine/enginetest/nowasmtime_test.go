//go:build !wasmtime

package enginetest

import "github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"

func tagged() map[string]func(dir string) engine.Engine { return nil }
