// Package wire decodes messages that come from the other side of the sandbox.
// The generated codec trusts its input in two ways that a host cannot. It accepts
// strings that are not UTF-8, which the Kubernetes API refuses or mangles. And it
// makes an object of up to 100 bytes out of every 2 bytes of input. Unmarshal
// checks both before anything is allocated.
//
// It uses reflection, once for each type: it is for hosts, not for guests.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"unicode/utf8"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// MaxFields is the largest number of fields of one message, nested messages
// included. It bounds the time of decoding.
const MaxFields = 1 << 18

// MaxRequestOverhead is how many bytes more than it has itself the request of
// a host call may take in memory.
const MaxRequestOverhead = 1 << 20

// maxResponseOverhead is that of every other message: lists of small objects,
// as of instances and routes, take up to seven times their bytes.
func maxResponseOverhead(data []byte) int { return min(1<<20+8*len(data), 24<<20) }

// Unmarshal decodes data, what an op was answered, into m, which it resets
// first. m keeps nothing of data. The error names the message and what is
// wrong with it.
func Unmarshal(data []byte, m abi.Message) error {
	return UnmarshalWithin(data, m, maxResponseOverhead(data))
}

// UnmarshalWithin is Unmarshal for a message that may take so many bytes more
// in memory than data has, about. That is known before anything is allocated.
func UnmarshalWithin(data []byte, m abi.Message, overhead int) error {
	v := reflect.ValueOf(m).Elem()
	v.SetZero()
	t := v.Type()
	// Invariant G7 (host/SECURITY.md): nothing is decoded before it is known what it will take.
	if !harmless(data, overhead) {
		c := checker{fieldsLeft: MaxFields, overheadLeft: overhead}
		if err := c.message(data, t); err != nil {
			return fmt.Errorf("%s: %w", t.Name(), err)
		}
	}
	if err := m.UnmarshalVT(data); err != nil {
		return fmt.Errorf("%s: %w", t.Name(), err)
	}
	return nil
}

// harmless reports whether data cannot violate a check, whatever message it
// is. It is true of most messages, and much cheaper to find out.
func harmless(data []byte, overhead int) bool {
	if len(data) > overhead/maxOverheadPerByte {
		return false
	}
	for _, b := range data {
		if b >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

type checker struct {
	fieldsLeft   int
	overheadLeft int // bytes
}

func (c *checker) message(data []byte, t reflect.Type) error {
	s, groups := schemaOf(t), 0
	for len(data) > 0 {
		if c.fieldsLeft--; c.fieldsLeft < 0 {
			return fmt.Errorf("more than %d fields, send less at once (in pages)", MaxFields)
		}
		f, rest, err := next(data)
		if err != nil {
			return err
		}
		switch f.wireType {
		case startGroup:
			groups++
		case endGroup:
			groups--
		}
		if groups < 0 {
			return errors.New("a group ends that did not start")
		}
		// What is in a group belongs to no field of this ABI, and is kept.
		known := s.of(f.number)
		if groups > 0 {
			known = field{}
		}
		if c.overheadLeft -= known.overhead(len(data) - len(rest)); c.overheadLeft < 0 {
			return errors.New("its parts take much more memory than its bytes, send less at once (in pages)")
		}
		if f.wireType == lengthDelimited && groups == 0 {
			if err := c.value(f.value, known); err != nil {
				return err
			}
		}
		data = rest
	}
	if groups > 0 {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func (c *checker) value(value []byte, f field) error {
	switch {
	case f.isText && !utf8.Valid(value):
		return fmt.Errorf("field %s is not valid UTF-8, encode it", f.name)
	case f.message != nil:
		if err := c.message(value, f.message); err != nil {
			return fmt.Errorf("field %s: %w", f.name, err)
		}
	}
	return nil
}

// Find returns the bytes of one field of a message, a text, bytes or a message,
// without decoding the others: the field's number, behind the numbers of the
// messages that it is in. It returns nil where there is none, as of a text that is
// empty. They are data's.
func Find(data []byte, path ...uint64) (found []byte) {
	for len(data) > 0 {
		f, rest, err := next(data)
		if err != nil {
			return nil
		}
		if f.number == path[0] && f.wireType == lengthDelimited {
			found = f.value
		}
		data = rest
	}
	if len(path) > 1 && found != nil {
		return Find(found, path[1:]...)
	}
	return found
}

// The wire types of proto3.
const (
	varint          = 0
	fixed64         = 1
	lengthDelimited = 2
	startGroup      = 3
	endGroup        = 4
	fixed32         = 5
)

// rawField is one field on the wire.
type rawField struct {
	number   uint64
	wireType uint64
	value    []byte // of a length-delimited field
}

// next splits the first field off data.
func next(data []byte) (f rawField, rest []byte, err error) {
	tag, n := binary.Uvarint(data)
	if n <= 0 {
		return f, nil, errors.New("a tag is truncated or too long")
	}
	f, rest = rawField{number: tag >> 3, wireType: tag & 7}, data[n:]
	if f.number == 0 || f.number > 1<<29-1 {
		return f, nil, fmt.Errorf("field number %d is out of range", f.number)
	}
	size := uint64(0)
	switch f.wireType {
	case varint:
		if _, n = binary.Uvarint(rest); n <= 0 {
			return f, nil, errors.New("an integer is truncated or too long")
		}
		return f, rest[n:], nil
	case lengthDelimited:
		if size, n = binary.Uvarint(rest); n <= 0 {
			return f, nil, errors.New("a length is truncated or too long")
		}
		rest = rest[n:]
	case fixed64:
		size = 8
	case fixed32:
		size = 4
	case startGroup, endGroup:
	default:
		return f, nil, fmt.Errorf("wire type %d of field %d does not exist", f.wireType, f.number)
	}
	if size > uint64(len(rest)) {
		return f, nil, io.ErrUnexpectedEOF
	}
	f.value = rest[:size:size]
	return f, rest[size:], nil
}
