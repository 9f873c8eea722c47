// Package wasmbin decodes the primitives of the WebAssembly binary format:
// bytes, LEB128 numbers, names and vectors, within bounds.
//
// It imports nothing of this project.
package wasmbin

import (
	"errors"
	"fmt"
)

var errTruncated = errors.New("unexpected end")

// Reader decodes a part of a module. The first error sticks, and everything
// read after it is zero.
type Reader struct {
	Data []byte
	Pos  int
	Err  error
}

// Fail records an error at the current byte, unless there is one already.
func (r *Reader) Fail(format string, args ...any) {
	if r.Err == nil {
		r.Err = fmt.Errorf("at byte %d: %w", r.Pos, fmt.Errorf(format, args...))
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

// U32 reads an unsigned LEB128 number.
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

// SkipLEB passes over a signed number of at most n bytes.
func (r *Reader) SkipLEB(n int) {
	for range n {
		if r.Byte() < 0x80 {
			return
		}
	}
	r.Fail("number too long")
}

// Count reads a vector's length and refuses more than limit, or more than
// there are bytes left for.
func (r *Reader) Count(what string, limit uint32) uint32 {
	n := r.U32()
	if n > limit {
		r.Fail("%d %s, at most %d are allowed", n, what, limit)
		return 0
	}
	if uint64(n) > uint64(len(r.Data)-r.Pos) {
		r.Fail("%w in %s", errTruncated, what)
		return 0
	}
	return n
}

// Name reads a name and returns a view of it.
func (r *Reader) Name() []byte { return r.Bytes(r.U32()) }

// Done returns the error of the reader, or one if anything is left.
func (r *Reader) Done(what string) error {
	if r.Err == nil && r.Pos != len(r.Data) {
		r.Fail("%d bytes left over", len(r.Data)-r.Pos)
	}
	if r.Err != nil {
		return fmt.Errorf("%s: %w", what, r.Err)
	}
	return nil
}

// AppendU32 appends an unsigned LEB128 number.
func AppendU32(dst []byte, v uint32) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}
