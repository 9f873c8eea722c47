package sdk

import (
	"io"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// InstanceNodeFields is for providers that read few fields of the Node in ops
// of Instances: decoding the others, above all the labels, costs more than the
// rest of such an op.
type InstanceNodeFields interface {
	// InstanceNodeFields returns the fields to fill. It is called once. A Node
	// is then valid until the called method returns; its strings remain valid.
	InstanceNodeFields() []NodeField
}

// fieldSet has one bit per field.
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

// decodeInstance decodes an InstanceRequest, with only these fields of its
// node, into node. Decoding concatenated messages merges them, so each field is
// decoded as a message of its own.
func decodeInstance(request []byte, req *abi.InstanceRequest, node *abi.Node, set fieldSet) error {
	*req, *node = abi.InstanceRequest{}, abi.Node{}
	if set == allFields {
		return decode(request, req)
	}
	for rest := request; len(rest) > 0; {
		f, err := nextField(rest)
		if err == nil && f.number == 1 && f.value != nil {
			req.Node = node
			err = decodeNode(f.value, node, set)
		}
		if err != nil {
			return Error(abi.CodeInvalid, "the request does not decode: "+err.Error())
		}
		rest = rest[len(f.whole):]
	}
	return nil
}

func decodeNode(data []byte, node *abi.Node, set fieldSet) error {
	for len(data) > 0 {
		f, err := nextField(data)
		if err == nil && set.has(f.number) {
			err = node.UnmarshalVT(f.whole)
		}
		if err != nil {
			return err
		}
		data = data[len(f.whole):]
	}
	return nil
}

// wireField is one field of a message; its value is nil unless it is text,
// bytes or a message.
type wireField struct {
	number       uint64
	whole, value []byte
}

// nextField returns the first field of a message.
func nextField(data []byte) (wireField, error) {
	tag, n := varint(data)
	if n == 0 || tag>>3 == 0 {
		return wireField{}, io.ErrUnexpectedEOF
	}
	start, size := n, uint64(0)
	switch tag & 7 {
	case 0:
		_, more := varint(data[n:])
		if more == 0 {
			return wireField{}, io.ErrUnexpectedEOF
		}
		size = uint64(more)
	case 1:
		size = 8
	case 2:
		length, more := varint(data[n:])
		if more == 0 {
			return wireField{}, io.ErrUnexpectedEOF
		}
		start, size = n+more, length
	case 5:
		size = 4
	default:
		return wireField{}, io.ErrUnexpectedEOF
	}
	if size > uint64(len(data)-start) {
		return wireField{}, io.ErrUnexpectedEOF
	}
	end := start + int(size)
	f := wireField{number: tag >> 3, whole: data[:end:end]}
	if tag&7 == 2 {
		f.value = data[start:end:end]
	}
	return f, nil
}

// varint returns a number and its length in bytes, 0 if malformed.
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
