package wasmbin

import "fmt"

// ValueType is a value type in its binary form.
type ValueType = byte

// The value types of WebAssembly 2.0.
const (
	I32       ValueType = 0x7f
	I64       ValueType = 0x7e
	F32       ValueType = 0x7d
	F64       ValueType = 0x7c
	V128      ValueType = 0x7b
	FuncRef   ValueType = 0x70
	ExternRef ValueType = 0x6f
)

// The same, to put lists of types together.
const (
	i32  = string(I32)
	i64  = string(I64)
	f32  = string(F32)
	f64  = string(F64)
	v128 = string(V128)
)

// TypeName is the name of a value type in WebAssembly's text format.
func TypeName(t ValueType) string {
	switch t {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case F32:
		return "f32"
	case F64:
		return "f64"
	case V128:
		return "v128"
	case FuncRef:
		return "funcref"
	case ExternRef:
		return "externref"
	}
	return fmt.Sprintf("0x%02x", t)
}

// SizeOf is the size of a value in an engine's frames, in bytes.
func SizeOf(t ValueType) uint64 {
	if t == V128 {
		return 16
	}
	return 8
}

func isRef(t ValueType) bool { return t == FuncRef || t == ExternRef }

// ValueType reads a value type.
func (r *Reader) ValueType() ValueType {
	t := r.Byte()
	if t < V128 && !isRef(t) || t > I32 {
		r.Fail("type 0x%02x is not a value type of WebAssembly 2.0", t)
		return I32
	}
	return t
}

// RefType reads the type of a reference.
func (r *Reader) RefType() ValueType {
	t := r.Byte()
	if !isRef(t) {
		r.Fail("type 0x%02x is not a reference type of WebAssembly 2.0", t)
		return FuncRef
	}
	return t
}

// Opcode is a single byte, or a prefix, shifted by eight bits, with the number behind it.
type Opcode uint32

const (
	prefixMisc   = 0xfc
	prefixVector = 0xfd
)

func opcodeBehind(prefix byte, n uint32) Opcode {
	if n > 0xff {
		n = 0xff_ffff // there are none
	}
	return Opcode(prefix)<<24 | Opcode(n)
}

// split returns the first byte of an opcode, and whether a number is behind it.
func (o Opcode) split() (first byte, n uint32, prefixed bool) {
	if o <= 0xff {
		return byte(o), 0, false
	}
	return byte(o >> 24), uint32(o & 0xff_ffff), true
}

// String returns the opcode as its bytes are written.
func (o Opcode) String() string {
	first, n, prefixed := o.split()
	if !prefixed {
		return fmt.Sprintf("0x%02x", first)
	}
	return fmt.Sprintf("0x%02x %d", first, n)
}

// Append appends the opcode in its shortest form.
func (o Opcode) Append(dst []byte) []byte {
	first, n, prefixed := o.split()
	if !prefixed {
		return append(dst, first)
	}
	return AppendU32(append(dst, first), n)
}

// Spec returns the specification of an opcode, nil if unknown.
func (o Opcode) Spec() *Spec {
	first, n, prefixed := o.split()
	var s *Spec
	switch {
	case !prefixed:
		s = &oneByte[first]
	case first == prefixMisc && n < uint32(len(misc)):
		s = &misc[n]
	case first == prefixVector && n < uint32(len(vector)):
		s = &vector[n]
	}
	if s == nil || s.Name == "" {
		return nil
	}
	return s
}

// IsVector tells the instructions about vectors.
func (o Opcode) IsVector() bool { return o>>24 == prefixVector }

// Opcodes returns all opcodes of WebAssembly 2.0.
func Opcodes() (all []Opcode) {
	for n := range Opcode(256) {
		for _, o := range []Opcode{n, prefixMisc<<24 | n, prefixVector<<24 | n} {
			if o.Spec() != nil {
				all = append(all, o)
			}
		}
	}
	return all
}

// Spec is the specification of an instruction.
type Spec struct {
	Name string
	Imm  Immediate
	// Params and Results are the operands' types, as far as the opcode alone determines them.
	Params, Results string
	// Arg is the natural alignment of a memory access, as a power of two; the
	// number of lanes; or the number of bytes of a constant.
	Arg byte
}

// Immediate is the kind of data behind an opcode.
type Immediate byte

const (
	immNone Immediate = iota
	immBlock
	immLabel
	immLabels
	immFunction
	immCallIndirect // a type and a table
	immLocal
	immGlobal
	immTable
	immTableTable
	immElement
	immElementTable
	immData
	immDataMemory
	immZero     // a memory
	immZeroZero // two of them
	immMemory
	immMemoryLane
	immLane
	immShuffle
	immI32
	immI64
	immBytes
	immSelect
	immRefType
)

// IsMemoryAccess tells the loads and stores.
func (s *Spec) IsMemoryAccess() bool { return s.Imm == immMemory || s.Imm == immMemoryLane }
