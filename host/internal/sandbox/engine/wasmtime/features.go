//go:build wasmtime

package wasmtime

import (
	"fmt"
	"syscall"

	"github.com/bytecodealliance/wasmtime-go/v44"
)

const (
	// maxStackBytes is what a guest's calls may take of a thread's stack. Of
	// two, one inside of the other (a signer within a provider's host call),
	// each has as much.
	// More is not to be had: the runtime has a default of 2 MiB for the stacks
	// of its own, which the library cannot change and which must not be less.
	maxStackBytes = 2 << 20
	// minThreadStackBytes leaves room for two guests and for the runtime.
	minThreadStackBytes = 6 << 20
	// maxTables and maxTableElements of an instance. The meter clamps tables to
	// less.
	maxTables        = 16
	maxTableElements = 1 << 20
)

// Features returns a configuration with the features of WebAssembly 2.0, as
// wazero has them: the same modules must be valid on both engines.
func Features() *wasmtime.Config {
	c := wasmtime.NewConfig()
	c.SetWasmMultiValue(true)
	c.SetWasmBulkMemory(true)
	c.SetWasmReferenceTypes(true)
	c.SetWasmSIMD(true)
	c.SetWasmRelaxedSIMD(false)
	c.SetWasmThreads(false)
	c.SetWasmTailCall(false)
	c.SetWasmFunctionReferences(false)
	c.SetWasmGC(false)
	c.SetWasmMultiMemory(false)
	c.SetWasmMemory64(false)
	c.SetWasmWideArithmetic(false)
	c.SetWasmComponentModel(false)
	// The meter stops guests. One compilation takes one processor: the control
	// loops keep the others.
	c.SetEpochInterruption(false)
	c.SetConsumeFuel(false)
	c.SetParallelCompilation(false)
	c.SetNativeUnwindInfo(false)
	c.SetMaxWasmStack(maxStackBytes)
	return c
}

// checkThreadStack refuses to run where a guest would run over the end of a
// thread's stack before it reaches its limit, and take the manager along.
// Threads get the limit that the process was started with, and 2 MiB without
// one.
func checkThreadStack() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_STACK, &limit); err != nil {
		return fmt.Errorf("the stack limit: %w", err)
	}
	const unlimited = 1<<64 - 1
	if limit.Cur >= minThreadStackBytes && limit.Cur != unlimited {
		return nil
	}
	return fmt.Errorf("the stack limit of the process (%d bytes) gives threads less than the %d bytes that wasmtime needs: start it with 'ulimit -s 8192', or use the engine wazero", limit.Cur, minThreadStackBytes)
}
