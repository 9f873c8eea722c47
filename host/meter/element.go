package meter

// constant copies a constant expression, with moved function indexes.
func (m *rewriter) constant(r *reader, out []byte) []byte {
	for r.err == nil {
		start := r.pos
		switch op := r.byte(); op {
		case opEnd:
			return append(out, op)
		case opRefFunc:
			out = appendU32(append(out, op), m.shift(r.u32()))
			continue
		case opI32Const:
			r.skipLEB(5)
		case opI64Const:
			r.skipLEB(10)
		case opF32Const:
			r.bytes(4)
		case opF64Const:
			r.bytes(8)
		case opGlobalGet:
			r.u32()
		case opRefNull:
			r.byte()
		case opPrefixVector:
			vectorImmediates(r)
		default:
			r.fail("instruction 0x%02x is not allowed in a constant expression", op)
		}
		out = append(out, r.data[start:r.pos]...)
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
	if err := r.done("element section"); err != nil {
		return err
	}
	m.sections[sectionElement] = v.bytes()
	return nil
}

func (m *rewriter) element(r *reader, out []byte) []byte {
	flags := r.u32()
	if flags > 7 {
		r.fail("element segment with flags %d is not supported", flags)
		return out
	}
	active, explicit, expressions := flags&1 == 0, flags&2 != 0, flags&4 != 0
	out = appendU32(out, flags)
	if active {
		if explicit {
			out = appendU32(out, r.u32())
		}
		out = m.constant(r, out)
	}
	if explicit || !active {
		out = append(out, r.byte())
	}
	n := r.count("elements", maxFunctions)
	out = appendU32(out, n)
	for range n {
		if expressions {
			out = m.constant(r, out)
		} else {
			out = appendU32(out, m.shift(r.u32()))
		}
	}
	return out
}
