//go:build wasmtime

package wasmtime

import (
	"fmt"
	"syscall"

	"github.com/bytecodealliance/wasmtime-go/v44"
)

const (
	// maxStackBytes bounds a guest's calls on a thread's stack. A nested guest (a signer within
	// a provider's host call) has as much again. More is impossible: the runtime's own stacks
	// have 2 MiB, which the library cannot change and which must not be less.
	maxStackBytes = 2 << 20
	// minThreadStackBytes leaves room for two guests and for the runtime.
	minThreadStackBytes = 6 << 20
	// maxTables and maxTableElements bound an instance. The meter clamps tables to less.
	maxTables        = 16
	maxTableElements = 1 << 20
)

// Features returns a configuration with wazero's features of WebAssembly 2.0: a module must
// be valid on both engines or on neither.
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
	// The meter stops guests. A compilation takes one processor and leaves the others to the
	// control loops.
	c.SetEpochInterruption(false)
	c.SetConsumeFuel(false)
	c.SetParallelCompilation(false)
	c.SetNativeUnwindInfo(false)
	c.SetMaxWasmStack(maxStackBytes)
	return c
}

// checkThreadStack refuses to run if a guest could overrun a thread's stack before its
// limit, and end the manager. Threads have the stack limit at the start of the process, or 2
// MiB without one.
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
