// Package wasmtime is the engine on github.com/bytecodealliance/wasmtime-go: the
// second one, behind the same interface and the same contract as wazero. It
// needs cgo and the build tag wasmtime. Without the tag the package is empty, and
// the manager stays one static binary.
package wasmtime
