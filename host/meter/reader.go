package meter

import (
	"errors"
	"fmt"
)

var errTruncated = errors.New("unexpected end")

// reader decodes a part of a module. The first error sticks, and everything
// read after it is zero.
type reader struct {
	data []byte
	pos  int
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("at byte %d: %w", r.pos, fmt.Errorf(format, args...))
	}
}

func (r *reader) more() bool { return r.err == nil && r.pos < len(r.data) }

func (r *reader) byte() byte {
	if r.err != nil || r.pos >= len(r.data) {
		r.fail("%w", errTruncated)
		return 0
	}
	r.pos++
	return r.data[r.pos-1]
}

// bytes returns a view of the next n bytes.
func (r *reader) bytes(n uint32) []byte {
	if r.err != nil || uint64(n) > uint64(len(r.data)-r.pos) {
		r.fail("%w", errTruncated)
		return nil
	}
	r.pos += int(n)
	return r.data[r.pos-int(n) : r.pos]
}

func (r *reader) u32() uint32 {
	var value uint64
	for shift := uint(0); shift < 35; shift += 7 {
		b := r.byte()
		value |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if value > 1<<32-1 {
				r.fail("number out of range")
				return 0
			}
			return uint32(value)
		}
	}
	r.fail("number too long")
	return 0
}

// skipLEB passes over a signed number of at most n bytes.
func (r *reader) skipLEB(n int) {
	for range n {
		if r.byte() < 0x80 {
			return
		}
	}
	r.fail("number too long")
}

// count reads a vector's length and refuses more than limit, or more than
// there are bytes left for.
func (r *reader) count(what string, limit uint32) uint32 {
	n := r.u32()
	if n > limit {
		r.fail("%d %s, at most %d are allowed", n, what, limit)
		return 0
	}
	if uint64(n) > uint64(len(r.data)-r.pos) {
		r.fail("%w in %s", errTruncated, what)
		return 0
	}
	return n
}

func (r *reader) name() []byte { return r.bytes(r.u32()) }

// done returns the error of the reader, or one if anything is left.
func (r *reader) done(what string) error {
	if r.err == nil && r.pos != len(r.data) {
		r.fail("%d bytes left over", len(r.data)-r.pos)
	}
	if r.err != nil {
		return fmt.Errorf("%s: %w", what, r.err)
	}
	return nil
}

func appendU32(dst []byte, v uint32) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

// paddedBytes is the fixed size of a patched cost: 4 bytes hold 27 bits and
// the sign.
const paddedBytes = 4

// putPadded writes v as a signed LEB128 of paddedBytes bytes.
func putPadded(dst []byte, v uint32) {
	for i := range paddedBytes {
		dst[i] = byte(v>>(7*i)) & 0x7f
		if i < paddedBytes-1 {
			dst[i] |= 0x80
		}
	}
}
