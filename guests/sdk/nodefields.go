package sdk

import (
	"io"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// InstanceNodeFields is for providers that read few fields of the Node of
// Instances: decoding the others, the labels above all, costs more than the
// rest of such an op.
type InstanceNodeFields interface {
	// InstanceNodeFields returns the fields that are filled. It is asked once.
	InstanceNodeFields() []NodeField
}

// fieldSet has the bit of each field.
type fieldSet uint64

const allFields = ^fieldSet(0)

func fieldsOf(p Provider) fieldSet {
	selective, ok := p.(InstanceNodeFields)
	if !ok {
		return allFields
	}
	var set fieldSet
	for _, field := range selective.InstanceNodeFields() {
		set |= 1 << field
	}
	return set
}

func (set fieldSet) has(number uint64) bool { return number < 64 && set>>number&1 == 1 }

// decodeInstance decodes an InstanceRequest, of its node those fields only.
// Messages merge when they are decoded one behind the other, so each field is
// decoded as a message of its own.
func decodeInstance(request []byte, req *abi.InstanceRequest, set fieldSet) error {
	if set == allFields {
		return decode(request, req)
	}
	req.Reset()
	err := eachField(request, func(number uint64, _, value []byte) error {
		if number != 1 || value == nil {
			return nil
		}
		if req.Node == nil {
			req.Node = &abi.Node{}
		}
		return eachField(value, func(number uint64, field, _ []byte) error {
			if !set.has(number) {
				return nil
			}
			return req.Node.UnmarshalVT(field)
		})
	})
	if err != nil {
		return Error(abi.CodeInvalid, "the request does not decode: "+err.Error())
	}
	return nil
}

// eachField calls f with each field of a message: its number, the whole field,
// and its value when it is text, bytes or a message, else nil.
func eachField(data []byte, f func(number uint64, field, value []byte) error) error {
	for len(data) > 0 {
		tag, n := varint(data)
		if n == 0 || tag>>3 == 0 {
			return io.ErrUnexpectedEOF
		}
		start, size := n, uint64(0)
		switch tag & 7 {
		case 0:
			_, more := varint(data[n:])
			if more == 0 {
				return io.ErrUnexpectedEOF
			}
			size = uint64(more)
		case 1:
			size = 8
		case 2:
			length, more := varint(data[n:])
			if more == 0 {
				return io.ErrUnexpectedEOF
			}
			start, size = n+more, length
		case 5:
			size = 4
		default:
			return io.ErrUnexpectedEOF
		}
		if size > uint64(len(data)-start) {
			return io.ErrUnexpectedEOF
		}
		end := start + int(size)
		var value []byte
		if tag&7 == 2 {
			value = data[start:end:end]
		}
		if err := f(tag>>3, data[:end:end], value); err != nil {
			return err
		}
		data = data[end:]
	}
	return nil
}

// varint returns a number and how many bytes it has, 0 when it is malformed.
func varint(data []byte) (v uint64, n int) {
	for n < len(data) && n < 10 {
		b := data[n]
		v |= uint64(b&0x7f) << (7 * n)
		n++
		if b < 0x80 {
			return v, n
		}
	}
	return 0, 0
}
