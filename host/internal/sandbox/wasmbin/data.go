package wasmbin

// Beginning is the initial contents of a module's memory.
type Beginning struct {
	// Size is the memory's, in bytes.
	Size uint64
	// Parts are copied into the memory in this order. They may overlap.
	Parts []Part
}

// Part is a range of a memory's bytes, a view of the module.
type Part struct {
	Offset uint32
	Data   []byte
}

// SplitData removes the active data segments from a module written by this project: an
// engine that gets their bytes separately does not copy them for each instance. The rest is
// the same module with a zeroed memory; the removed segments are passive and empty in it, as
// they appear to the module's code after their copy. It may be a view of the module. If an
// engine should report an error about a segment, nothing is removed, and ok is false.
func SplitData(wasm []byte) (rest []byte, begins Beginning, ok bool) {
	if checkHeader(wasm) != nil {
		return wasm, begins, false
	}
	r := &Reader{Data: wasm, Pos: len(header)}
	numbered := false // the code refers to segments by number
	for r.More() {
		start := r.Pos
		id := r.Byte()
		content := r.Part(r.U32())
		switch id {
		case SectionMemory:
			if content.U32() == 1 {
				begins.Size = uint64(limits(content, MaxMemoryPages).Min) << 16
			}
		case SectionDataCount:
			numbered = true
		case SectionData:
			left := begins.split(content)
			if content.Done("data section") != nil || r.Err != nil || r.More() {
				return wasm, Beginning{}, false
			}
			rest = wasm[:start:start]
			if numbered {
				rest = append(AppendU32(append(rest, id), uint32(len(left))), left...)
			}
			return rest, begins, true
		}
	}
	return wasm, Beginning{}, false
}

// The flags of data segments in their shortest form.
const (
	dataActive  = 0
	dataPassive = 1
)

// split reads a data section, collects its active segments, and returns the section without
// them.
func (b *Beginning) split(r *Reader) (left []byte) {
	n := r.Count("data segments", maxDataSegments)
	b.Parts = make([]Part, 0, n)
	left = AppendU32(nil, n)
	for range n {
		flags := r.Byte()
		offset := uint32(0)
		if flags == dataActive {
			offset = constantOffset(r)
		}
		data := r.Bytes(r.U32())
		switch {
		case r.Err != nil:
			return nil
		case flags == dataPassive:
			left = append(AppendU32(append(left, dataPassive), uint32(len(data))), data...)
			continue
		case flags != dataActive, uint64(offset)+uint64(len(data)) > b.Size:
			r.Fail("a segment that stays")
			return nil
		}
		b.Parts = append(b.Parts, Part{offset, data})
		left = append(left, dataPassive, 0)
	}
	return left
}

// constantOffset reads a segment's constant offset.
func constantOffset(r *Reader) uint32 {
	if Opcode(r.Byte()) != OpI32Const {
		r.Fail("an offset that is no number")
	}
	offset := uint32(r.Signed(32))
	if Opcode(r.Byte()) != OpEnd {
		r.Fail("an offset of more than one instruction")
	}
	return offset
}
