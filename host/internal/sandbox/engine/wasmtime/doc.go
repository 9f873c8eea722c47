// Package wasmtime is the engine on github.com/bytecodealliance/wasmtime-go:
// the second one, behind the same interface and the same contract as wazero.
// It needs cgo and the build tag wasmtime; without the tag the package is
// empty, and the manager stays one static binary.
//
// Guest memory is touched here and in the other engines only. It imports
// engine, engine/imports and abi.
package wasmtime
