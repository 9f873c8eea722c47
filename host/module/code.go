package module

import "github.com/wasm-ccm/wasm-ccm/host/internal/wasmbin"

// Bounds on one function. What compilers make stays far below them, and what
// is above them takes an engine's compiler seconds and hundreds of megabytes.
const (
	maxLocals    = 4096
	maxBodyBytes = 4 << 20
)

// codeSection checks the sizes and the locals of function bodies. The
// instructions, and how deep blocks nest, are checked by host/meter.
func (p *parser) codeSection(r *wasmbin.Reader) {
	p.bodies = r.Count("function bodies", maxFunctions)
	for i := range p.bodies {
		size := r.U32()
		if size > maxBodyBytes {
			r.Fail("the body of function %d has %d bytes, at most %d are allowed; split the function", i, size, maxBodyBytes)
		}
		body := &wasmbin.Reader{Data: r.Bytes(size)}
		if r.Err != nil {
			return
		}
		locals(body)
		if body.Err != nil {
			r.Fail("function %d: %w", i, body.Err)
			return
		}
	}
}

func locals(r *wasmbin.Reader) {
	var sum uint64
	for range r.Count("groups of locals", maxLocals) {
		sum += uint64(r.U32())
		r.Byte()
		if sum > maxLocals {
			r.Fail("%d locals, at most %d are allowed; split the function", sum, maxLocals)
			return
		}
	}
}
