package shadow

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// maxPerAnswer bounds the differences of one answer: a list of routes must not hide other
// differences.
const maxPerAnswer = 5

// differ collects the fields in which two messages differ.
type differ struct {
	found []Difference
}

// compare returns the first differences of two messages of one type.
func compare(older, newer abi.Message) []Difference {
	d := &differ{}
	d.message("", reflect.ValueOf(older).Elem(), reflect.ValueOf(newer).Elem())
	return d.found
}

func (d *differ) add(path, older, newer string) {
	d.found = append(d.found, Difference{Field: text.Line(path, maxFieldText), Old: older, New: newer})
}

func (d *differ) full() bool { return len(d.found) >= maxPerAnswer }

func (d *differ) message(path string, older, newer reflect.Value) {
	for i := range older.NumField() {
		f := older.Type().Field(i)
		name := fieldName(f.Tag)
		if !f.IsExported() || name == "" {
			continue
		}
		if path != "" {
			name = path + "." + name
		}
		d.value(name, older.Field(i), newer.Field(i))
	}
}

// value compares the generator's Go types: scalars, bytes, pointers to messages, slices and
// maps of those.
func (d *differ) value(path string, older, newer reflect.Value) {
	switch {
	case d.full():
	case older.Kind() == reflect.Interface:
		d.value(path, older.Elem(), newer.Elem())
	case older.Kind() == reflect.Pointer:
		d.pointer(path, older, newer)
	case older.Kind() == reflect.Map:
		d.maps(path, older, newer)
	case older.Kind() == reflect.Slice && older.Type().Elem().Kind() != reflect.Uint8:
		d.list(path, older, newer)
	case path == "next_page_token":
		// The guest chooses a page's token; only its presence matters.
		if older.IsZero() != newer.IsZero() {
			d.add(path, presence(!older.IsZero()), presence(!newer.IsZero()))
		}
	case !reflect.DeepEqual(older.Interface(), newer.Interface()):
		d.add(path, shown(older), shown(newer))
	}
}

// pointer compares messages; an absent message differs from an empty one.
func (d *differ) pointer(path string, older, newer reflect.Value) {
	if older.IsNil() || newer.IsNil() {
		if older.IsNil() != newer.IsNil() {
			d.add(path, presence(!older.IsNil()), presence(!newer.IsNil()))
		}
		return
	}
	d.message(path, older.Elem(), newer.Elem())
}

func (d *differ) maps(path string, older, newer reflect.Value) {
	keys := map[string]reflect.Value{}
	for _, m := range []reflect.Value{older, newer} {
		for _, key := range m.MapKeys() {
			keys[fmt.Sprint(key)] = key
		}
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if d.full() {
			return
		}
		field, before, now := fmt.Sprintf("%s[%s]", path, text.Quote(name)), older.MapIndex(keys[name]), newer.MapIndex(keys[name])
		if before.IsValid() && now.IsValid() {
			d.value(field, before, now)
		} else {
			d.add(field, shown(before), shown(now))
		}
	}
}

// list compares by identity where order has no meaning, else by index.
func (d *differ) list(path string, older, newer reflect.Value) {
	olds, oldsOK := identities(older)
	news, newsOK := identities(newer)
	if oldsOK && newsOK {
		d.maps(path, reflect.ValueOf(olds), reflect.ValueOf(news))
		return
	}
	if older.Len() != newer.Len() {
		d.add(path, count(older.Len()), count(newer.Len()))
	}
	for i := range min(older.Len(), newer.Len()) {
		if d.full() {
			return
		}
		d.value(fmt.Sprintf("%s[%d]", path, i), older.Index(i), newer.Index(i))
	}
}

// identities returns the entries of a list of routes or instances by their identity. It
// fails for other lists, and for duplicates.
func identities(list reflect.Value) (map[string]any, bool) {
	byIdentity := map[string]any{}
	for i := range list.Len() {
		switch e := list.Index(i).Interface().(type) {
		case *abi.Route:
			byIdentity[cmp.Or(e.Name, e.DestinationCidr+" "+e.TargetNode)] = e
		case *abi.Instance:
			byIdentity[cmp.Or(cmp.Or(e.Metadata, &abi.InstanceMetadata{}).ProviderId, e.NodeName)] = e
		}
	}
	return byIdentity, len(byIdentity) == list.Len()
}

// shown formats a value for people.
func shown(v reflect.Value) string {
	if !v.IsValid() {
		return presence(false)
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer, reflect.Struct:
		return presence(true)
	case reflect.String:
		return text.Quote(v.String())
	case reflect.Slice:
		return fmt.Sprintf("%d bytes", v.Len())
	}
	return text.Line(fmt.Sprint(v.Interface()), maxValueText) // numbers, and names of enums
}

func presence(there bool) string {
	if there {
		return "present"
	}
	return "absent"
}

func count(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// fieldName reads the field's name in the .proto file from the struct tag that
// the generator writes.
func fieldName(tag reflect.StructTag) string {
	for part := range strings.SplitSeq(tag.Get("protobuf"), ",") {
		if name, ok := strings.CutPrefix(part, "name="); ok {
			return name
		}
	}
	return ""
}
