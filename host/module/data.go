package module

import "github.com/wasm-ccm/wasm-ccm/host/internal/wasmbin"

// maxDataSegments is far above what compilers make.
const maxDataSegments = 1 << 16

// dataSection checks that the sizes in the data section are true. It keeps
// nothing: engines make room for what a segment says it holds before they
// look whether it is there, so twenty bytes could ask for gigabytes.
func dataSection(r *wasmbin.Reader) {
	for range r.Count("data segments", maxDataSegments) {
		switch kind := r.U32(); kind {
		case 0: // active
			constant(r)
		case 1: // passive
		case 2: // active, in a memory by number
			r.U32()
			constant(r)
		default:
			r.Fail("data segment of the unknown kind %d", kind)
		}
		r.Bytes(r.U32())
		if r.Err != nil {
			return
		}
	}
}

// constant passes over a constant expression for an address.
func constant(r *wasmbin.Reader) {
	const i32Const, globalGet, end = 0x41, 0x23, 0x0b
	switch opcode := r.Byte(); opcode {
	case i32Const:
		r.SkipLEB(5)
	case globalGet:
		r.U32()
	default:
		r.Fail("instruction 0x%02x is not one for the address of a data segment", opcode)
	}
	if r.Byte() != end {
		r.Fail("the address of a data segment is more than one instruction")
	}
}
