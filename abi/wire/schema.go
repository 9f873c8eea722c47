package wire

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// schema is what has to be known of a message's fields, by their number. Numbers of
// the ABI are small.
type schema []field

// of returns a field; the zero field of a number that is unknown.
func (s schema) of(number uint64) field {
	if number < uint64(len(s)) {
		return s[number]
	}
	return field{}
}

// withMaps returns the type of a field in which there are maps, or nil.
func (s schema) withMaps(number uint64) reflect.Type {
	if number < uint64(len(s)) && s[number].maps {
		return s[number].message
	}
	return nil
}

type field struct {
	name    string
	isText  bool         // a string
	message reflect.Type // the struct of a message or of a map entry, or nil
	maps    bool         // a map is in it; no message of the ABI is in itself
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

// schemas remembers what schemaOf has read. The tags of a type never change, and
// nothing changes a schema, so nobody can tell who asked before. There are as
// many as there are messages in the program.
var schemas sync.Map // of schema, by reflect.Type

// schemaOf reads the generator's struct tags.
func schemaOf(t reflect.Type) schema {
	if s, ok := schemas.Load(t); ok {
		return s.(schema)
	}
	var s schema
	if t.Kind() == reflect.Map {
		s = schema{1: valueField("key", t.Key()), 2: valueField("value", t.Elem())}
	} else {
		for i := range t.NumField() {
			f := t.Field(i)
			if number, ok := fieldNumber(f.Tag); ok {
				s = append(s, make(schema, max(0, int(number)+1-len(s)))...)
				s[number] = valueField(f.Name, f.Type)
			}
		}
	}
	for i, f := range s {
		s[i].maps = f.message != nil && (f.message.Kind() == reflect.Map || slices.ContainsFunc(schemaOf(f.message), func(f field) bool { return f.maps }))
	}
	schemas.Store(t, s)
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
