//go:build wasmtime

package wasmtime

import (
	"github.com/bytecodealliance/wasmtime-go/v44"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/imports"
)

// run is a host function. It ends the guest with a trap and stores the reason in the
// instance. A panic must not leave it: the runtime's frames are between here and the op's
// caller.
func run(f imports.Function) func(*wasmtime.Caller, []wasmtime.Val) ([]wasmtime.Val, *wasmtime.Trap) {
	return func(caller *wasmtime.Caller, args []wasmtime.Val) ([]wasmtime.Val, *wasmtime.Trap) {
		i := caller.Data().(*instance)
		for n, arg := range args {
			i.stack[n] = word(arg)
		}
		i.memory.enter(caller)
		err := f.Run(i.ctx, &i.call, &i.memory, i.stack[:])
		i.memory.leave()
		switch {
		case err != nil:
			i.end = err
			return nil, wasmtime.NewTrap("ended by the host")
		case len(f.Results) == 0:
			return nil, nil
		case f.Results[0] == imports.I64:
			i.results[0] = wasmtime.ValI64(int64(i.stack[0]))
		default:
			i.results[0] = wasmtime.ValI32(int32(uint32(i.stack[0])))
		}
		return i.results[:], nil
	}
}

func word(v wasmtime.Val) uint64 {
	if v.Kind() == wasmtime.KindI64 {
		return uint64(v.I64())
	}
	return uint64(uint32(v.I32()))
}

// memory implements imports.Memory during one host function, in which the guest cannot grow
// it.
type memory struct {
	// exported is nil until the module is instantiated: a start function runs before.
	exported *wasmtime.Memory
	caller   *wasmtime.Caller
	// data is the whole memory, from the first Read on.
	data []byte
}

func (m *memory) enter(caller *wasmtime.Caller) { m.caller, m.data = caller, nil }

func (m *memory) leave() { m.caller, m.data = nil, nil }

func (m *memory) Read(ptr, size uint32) ([]byte, bool) {
	if m.data == nil && !m.load() {
		return nil, false
	}
	end := uint64(ptr) + uint64(size)
	// Invariant G5 (host/SECURITY.md): the sum of two 32 bit numbers cannot overflow.
	if end > uint64(len(m.data)) {
		return nil, false
	}
	return m.data[ptr:end:end], true
}

func (m *memory) load() bool {
	of := m.exported
	if of == nil {
		export := m.caller.GetExport(abi.ExportMemory)
		if export == nil {
			return false
		}
		of = export.Memory()
	}
	if of == nil {
		return false
	}
	m.data = of.UnsafeData(m.caller)
	return m.data != nil
}
