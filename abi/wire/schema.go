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
}

// schema reads the struct tags that the generator writes. A checker keeps it
// for one message only, so that the package has no state.
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
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return field{name: name, isText: true}
	case reflect.Pointer:
		return field{name: name, message: t.Elem()}
	case reflect.Map:
		return field{name: name, message: t}
	}
	return field{name: name}
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
