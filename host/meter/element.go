package meter

import "github.com/wasm-ccm/wasm-ccm/host/internal/wasmbin"

// constant copies a constant expression, with moved function indexes.
func (m *rewriter) constant(r *wasmbin.Reader, out []byte) []byte {
	for r.Err == nil {
		start := r.Pos
		switch op := r.Byte(); op {
		case opEnd:
			return append(out, op)
		case opRefFunc:
			out = wasmbin.AppendU32(append(out, op), m.functionIndex(r))
			continue
		case opI32Const:
			r.SkipLEB(5)
		case opI64Const:
			r.SkipLEB(10)
		case opF32Const:
			r.Bytes(4)
		case opF64Const:
			r.Bytes(8)
		case opGlobalGet:
			r.U32()
		case opRefNull:
			r.Byte()
		case opPrefixVector:
			vectorImmediates(r)
		default:
			r.Fail("instruction 0x%02x is not allowed in a constant expression", op)
		}
		out = append(out, r.Data[start:r.Pos]...)
	}
	return out
}

// elements moves the function indexes of element segments. The low three bits
// of a segment's flags say how it is written.
func (m *rewriter) elements() error {
	if m.sections[sectionElement] == nil {
		return nil
	}
	r, n := m.section(sectionElement, "element segments", maxFunctions)
	v := vector{count: n}
	for range n {
		v.entries = m.element(r, v.entries)
	}
	if err := r.Done("element section"); err != nil {
		return err
	}
	m.sections[sectionElement] = v.bytes()
	return nil
}

func (m *rewriter) element(r *wasmbin.Reader, out []byte) []byte {
	flags := r.U32()
	if flags > 7 {
		r.Fail("element segment with flags %d is not supported", flags)
		return out
	}
	active, explicit, expressions := flags&1 == 0, flags&2 != 0, flags&4 != 0
	out = wasmbin.AppendU32(out, flags)
	if active {
		if explicit {
			out = wasmbin.AppendU32(out, r.U32())
		}
		out = m.constant(r, out)
	}
	if explicit || !active {
		out = append(out, r.Byte())
	}
	n := r.Count("elements", maxFunctions)
	out = wasmbin.AppendU32(out, n)
	for range n {
		if expressions {
			out = m.constant(r, out)
		} else {
			out = wasmbin.AppendU32(out, m.functionIndex(r))
		}
	}
	return out
}
