package wasmbin

// maxBlockDepth bounds the nesting of blocks. Stock Go makes one for each place where a
// function may be resumed: 2,400 were seen. Compilers recurse over them.
const maxBlockDepth = 1 << 13

// Instruction is one decoded instruction.
type Instruction struct {
	Op   Opcode
	Spec *Spec
	// X and Y are the immediate indexes in their order; for a memory access the alignment, as a
	// power of two, and the offset.
	X, Y uint32
	// Lane is a vector instruction's.
	Lane byte
	// N is the value of i32.const and i64.const.
	N int64
	// Raw is a view of the other constants, and of the lanes of a shuffle.
	Raw []byte
	// Labels are br_table's, the default last. The next call of Reader.Instruction with this
	// Instruction reuses them.
	Labels []uint32
	// Type is a block's, a select's or a null reference's.
	Type BlockType
}

// BlockType is the type of a block: Value if it is a value type or Void, otherwise function
// type Index.
type BlockType struct {
	Value byte
	Index uint32
}

// Void is the type of blocks that take and leave nothing.
const Void = 0x40

// Open decodes the declared locals of a function with that many parameters into the slice,
// and returns them with a reader of the instructions.
func (b *Body) Open(params int, locals []Locals) (*Reader, []Locals) {
	r := &Reader{Data: b.Data, Base: b.Base}
	sum, locals := uint64(params), locals[:0]
	for range r.Count("groups of locals", MaxLocals) {
		l := Locals{Count: r.U32(), Type: r.ValueType()}
		if sum += uint64(l.Count); sum > MaxLocals {
			r.Fail("%d locals in one function, at most %d are allowed; split the function", sum, MaxLocals)
		}
		if r.Err != nil {
			break
		}
		locals = append(locals, l)
	}
	return r, locals
}

// opcode reads an opcode.
func (r *Reader) opcode() Opcode {
	b := r.Byte()
	if b != prefixMisc && b != prefixVector {
		return Opcode(b)
	}
	return opcodeBehind(b, r.ShortU32("opcode"))
}

// Instruction decodes the next instruction into in.
func (r *Reader) Instruction(in *Instruction) {
	start := r.Pos
	op := r.opcode()
	*in = Instruction{Op: op, Spec: op.Spec(), Labels: in.Labels[:0]}
	if in.Spec == nil && r.Err == nil {
		r.Pos = start
		r.Fail("instruction %s is not one of WebAssembly 2.0", op)
	}
	if r.Err == nil {
		r.immediates(in)
	}
}

func (r *Reader) immediates(in *Instruction) {
	switch in.Spec.Imm {
	case immNone:
	case immBlock:
		in.Type = r.blockType()
	case immLabel, immFunction, immLocal, immGlobal, immTable, immData, immElement:
		in.X = r.U32()
	case immLabels:
		r.labels(in)
	case immCallIndirect, immElementTable, immTableTable:
		in.X, in.Y = r.U32(), r.U32()
	case immDataMemory:
		in.X = r.U32()
		r.zero()
	case immZeroZero:
		r.zero()
		r.zero()
	case immZero:
		r.zero()
	case immMemory, immMemoryLane:
		r.memoryAccess(in)
	case immLane:
		r.lane(in, in.Spec.Arg)
	case immShuffle:
		r.shuffle(in)
	case immI32:
		in.N = r.Signed(32)
	case immI64:
		in.N = r.Signed(64)
	case immBytes:
		in.Raw = r.Bytes(uint32(in.Spec.Arg))
	case immSelect:
		if r.Byte() != 1 {
			r.Fail("a select has one type, and 1 as the count of its types")
		}
		in.Type.Value = r.ValueType()
	case immRefType:
		in.Type.Value = r.RefType()
	}
}

// zero reads the index of a memory: there is only one.
func (r *Reader) zero() {
	if r.Byte() != 0 {
		r.Fail("more than one memory is not supported")
	}
}

func (r *Reader) labels(in *Instruction) {
	n := r.Count("branch targets", MaxBodyBytes)
	for range uint64(n) + 1 {
		if r.Err != nil {
			return
		}
		in.Labels = append(in.Labels, r.U32())
	}
}

func (r *Reader) memoryAccess(in *Instruction) {
	natural := in.Spec.Arg
	in.X, in.Y = r.ShortU32("alignment"), r.U32()
	if in.X > uint32(natural) {
		r.Fail("%s has an alignment of 2^%d, at most 2^%d is possible", in.Spec.Name, in.X, natural)
	}
	if in.Spec.Imm == immMemoryLane {
		r.lane(in, 16>>natural)
	}
}

func (r *Reader) lane(in *Instruction, lanes byte) {
	if in.Lane = r.Byte(); in.Lane >= lanes {
		r.Fail("%s of lane %d, there are %d", in.Spec.Name, in.Lane, lanes)
	}
}

func (r *Reader) shuffle(in *Instruction) {
	in.Raw = r.Bytes(16)
	for _, lane := range in.Raw {
		if lane >= in.Spec.Arg {
			r.Fail("%s of lane %d, there are %d", in.Spec.Name, lane, in.Spec.Arg)
		}
	}
}

// blockType reads the type of a block: one byte, or a number that is not padded.
func (r *Reader) blockType() BlockType {
	if r.Pos < len(r.Data) && r.Data[r.Pos]&0xc0 == 0x40 { // one negative byte
		if r.Data[r.Pos] == Void {
			r.Pos++
			return BlockType{Value: Void}
		}
		return BlockType{Value: r.ValueType()}
	}
	start := r.Pos
	index := r.Signed(33)
	if index < 0 || r.Pos-start != len(AppendSigned(nil, index)) {
		r.Pos = start
		r.Fail("the type of a block is padded or negative; write it in as few bytes as it needs")
		return BlockType{Value: Void}
	}
	return BlockType{Index: uint32(index)}
}

// Append appends the instruction in its shortest form.
//
// Invariant M19 (host/SECURITY.md): it writes decoded values only, and of the original's bytes
// only constants of a fixed size.
func (in *Instruction) Append(dst []byte) []byte {
	dst = in.Op.Append(dst)
	switch in.Spec.Imm {
	case immNone:
	case immBlock:
		return in.Type.Append(dst)
	case immLabel, immFunction, immLocal, immGlobal, immTable, immData, immElement:
		return AppendU32(dst, in.X)
	case immLabels:
		dst = AppendU32(dst, uint32(len(in.Labels)-1))
		for _, label := range in.Labels {
			dst = AppendU32(dst, label)
		}
	case immCallIndirect, immElementTable, immTableTable:
		return AppendU32(AppendU32(dst, in.X), in.Y)
	case immDataMemory:
		return append(AppendU32(dst, in.X), 0)
	case immZeroZero:
		return append(dst, 0, 0)
	case immZero:
		return append(dst, 0)
	case immMemory:
		return AppendU32(AppendU32(dst, in.X), in.Y)
	case immMemoryLane:
		return append(AppendU32(AppendU32(dst, in.X), in.Y), in.Lane)
	case immLane:
		return append(dst, in.Lane)
	case immI32, immI64:
		return AppendSigned(dst, in.N)
	case immBytes, immShuffle:
		return append(dst, in.Raw...)
	case immSelect:
		return append(dst, 1, in.Type.Value)
	case immRefType:
		return append(dst, in.Type.Value)
	}
	return dst
}

// Append appends the type of a block in its shortest form.
func (t BlockType) Append(dst []byte) []byte {
	if t.Value != 0 {
		return append(dst, t.Value)
	}
	return AppendSigned(dst, int64(t.Index))
}
