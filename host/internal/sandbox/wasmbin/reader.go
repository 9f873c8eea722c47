package wasmbin

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

var errTruncated = errors.New("unexpected end")

// maxNameBytes bounds the name of a section, an import or an export. Engines keep each of
// them, some more than once.
const maxNameBytes = 1024

// Reader decodes a part of a module. The first error sticks, and everything read after it is
// zero.
//
// Numbers may be padded as far as the specification allows: linkers do so, to patch them
// later. Rewritten numbers are not padded.
type Reader struct {
	Data []byte
	Pos  int
	// Base is where Data begins in the module, for errors.
	Base int
	Err  error
}

// Fail records an error at the current byte, unless there is one already.
func (r *Reader) Fail(format string, args ...any) {
	if r.Err == nil {
		r.Err = fmt.Errorf("at byte %d: %w", r.Base+r.Pos, fmt.Errorf(format, args...))
	}
}

// More reports whether anything is left to read.
func (r *Reader) More() bool { return r.Err == nil && r.Pos < len(r.Data) }

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if r.Err != nil || r.Pos >= len(r.Data) {
		r.Fail("%w", errTruncated)
		return 0
	}
	r.Pos++
	return r.Data[r.Pos-1]
}

// Bytes returns a view of the next n bytes.
func (r *Reader) Bytes(n uint32) []byte {
	if r.Err != nil || uint64(n) > uint64(len(r.Data)-r.Pos) {
		r.Fail("%w", errTruncated)
		return nil
	}
	r.Pos += int(n)
	return r.Data[r.Pos-int(n) : r.Pos]
}

// Part returns a reader of the next n bytes.
func (r *Reader) Part(n uint32) *Reader {
	base := r.Base + r.Pos
	return &Reader{Data: r.Bytes(n), Base: base, Err: r.Err}
}

// U32 reads an unsigned LEB128 number of 32 bits.
func (r *Reader) U32() uint32 {
	var value uint64
	for shift := uint(0); shift < 35; shift += 7 {
		b := r.Byte()
		value |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if value > 1<<32-1 {
				r.Fail("number out of range")
				return 0
			}
			return uint32(value)
		}
	}
	r.Fail("number too long")
	return 0
}

// ShortU32 is U32 for numbers that engines read differently: they must not be padded.
func (r *Reader) ShortU32(what string) uint32 {
	start := r.Pos
	value := r.U32()
	if r.Err == nil && r.Pos-start != sizeU32(value) {
		r.Pos = start
		r.Fail("the %s %d is padded; write it in as few bytes as it needs", what, value)
		return 0
	}
	return value
}

// Signed reads a signed LEB128 number of 32, 33 or 64 bits.
func (r *Reader) Signed(bits uint) int64 {
	var value int64
	for shift := uint(0); shift < bits; shift += 7 {
		b := r.Byte()
		value |= int64(b&0x7f) << shift
		if b >= 0x80 {
			continue
		}
		if left := bits - shift; left < 7 { // the last byte: unused bits repeat the sign
			if rest := int8(b<<1) >> left; rest != 0 && rest != -1 {
				r.Fail("number out of range")
				return 0
			}
		}
		if used := 64 - min(shift+7, 64); used > 0 {
			value = value << used >> used
		}
		return value
	}
	r.Fail("number too long")
	return 0
}

// Count reads a vector's length and refuses more than limit, or more than the remaining
// bytes.
func (r *Reader) Count(what string, limit uint32) uint32 {
	n := r.U32()
	if n > limit {
		r.Fail("%d %s, at most %d are allowed", n, what, limit)
		return 0
	}
	// Invariant M22 (host/SECURITY.md): entries are allocated only if their bytes exist.
	if uint64(n) > uint64(len(r.Data)-r.Pos) {
		r.Fail("%w in %s", errTruncated, what)
		return 0
	}
	return n
}

// Name reads a name and returns a view of it.
func (r *Reader) Name() []byte { return r.text(maxNameBytes) }

// text reads a name of at most so many bytes.
func (r *Reader) text(most uint32) []byte {
	name := r.Bytes(r.Count("bytes in a name", most))
	if !utf8.Valid(name) {
		r.Fail("a name is not UTF-8")
	}
	return name
}

// Done returns the error of the reader, or an error for remaining bytes.
func (r *Reader) Done(what string) error {
	if r.Err == nil && r.Pos != len(r.Data) {
		r.Fail("%d bytes left over", len(r.Data)-r.Pos)
	}
	if r.Err != nil {
		return fmt.Errorf("%s: %w", what, r.Err)
	}
	return nil
}

func sizeU32(v uint32) int {
	size := 1
	for ; v >= 0x80; v >>= 7 {
		size++
	}
	return size
}

// AppendU32 appends an unsigned LEB128 number in as few bytes as it needs.
func AppendU32(dst []byte, v uint32) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

// AppendSigned appends a signed LEB128 number in as few bytes as it needs.
func AppendSigned(dst []byte, v int64) []byte {
	for v < -0x40 || v >= 0x40 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v)&0x7f)
}
