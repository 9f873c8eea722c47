package wire

import (
	"reflect"
	"strconv"
	"strings"
)

// schema is what has to be known of a message's fields, by their number.
type schema map[uint64]field

type field struct {
	name    string
	isText  bool         // a string
	message reflect.Type // the struct of a message or of a map entry, or nil
	known   bool         // by this ABI
	bytes   int          // what each occurrence allocates beside its value
	packed  int          // what each byte of a list of numbers allocates
}

// Lists and maps grow by doubling, and leave what they had to the collector.
const growth = 3

// maxOverheadPerByte is what no field of the ABI takes more of for each of its
// bytes, of which it has 2 at least; a test holds it beside the messages.
const maxOverheadPerByte = 256

// overhead is about how many bytes a field of so many on the wire takes in
// memory beside them.
func (f field) overhead(onWire int) int {
	if !f.known {
		return onWire // kept as it is, in a list of bytes that grows
	}
	return f.bytes + onWire*f.packed
}

// schema reads the generator's struct tags. A checker keeps it for one message
// only, so that the package has no state.
func (c *checker) schema(t reflect.Type) schema {
	if s, ok := c.schemas[t]; ok {
		return s
	}
	s := schema{}
	if t.Kind() == reflect.Map {
		s[1], s[2] = valueField("key", t.Key()), valueField("value", t.Elem())
	} else {
		for i := range t.NumField() {
			f := t.Field(i)
			if number, ok := fieldNumber(f.Tag); ok {
				s[number] = valueField(f.Name, f.Type)
			}
		}
	}
	c.schemas[t] = s
	return s
}

// valueField describes a Go type that the generator uses: scalars, bytes,
// pointers to messages, slices of those, and maps, whose entries are messages
// with the fields 1 and 2 on the wire.
func valueField(name string, t reflect.Type) field {
	f := field{name: name, known: true}
	list := t.Kind() == reflect.Slice
	if list {
		t = t.Elem()
		f.bytes = growth * int(t.Size())
	}
	switch t.Kind() {
	case reflect.String:
		f.isText = true
	case reflect.Pointer:
		f.message = t.Elem()
		f.bytes += int(t.Elem().Size())
	case reflect.Map:
		f.message = t
		f.bytes = growth * int(t.Key().Size()+t.Elem().Size()+1)
	case reflect.Uint8: // bytes
		f.bytes = 0
	default:
		if list {
			f.packed = growth * int(t.Size())
		}
	}
	return f
}

// fieldNumber reads `protobuf:"bytes,1,opt,..."`.
func fieldNumber(tag reflect.StructTag) (uint64, bool) {
	parts := strings.SplitN(tag.Get("protobuf"), ",", 3)
	if len(parts) < 3 {
		return 0, false
	}
	number, err := strconv.ParseUint(parts[1], 10, 32)
	return number, err == nil
}
