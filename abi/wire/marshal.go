package wire

import (
	"bytes"
	"reflect"
	"slices"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Marshal encodes m. Equal messages have equal bytes: the entries of maps, which
// the generated codec writes in Go's random order, are in that of their keys. So
// a guest that hashes or compares what it is asked sees a change only where there
// is one.
func Marshal(m abi.Message) ([]byte, error) {
	data := make([]byte, m.SizeVT())
	if _, err := m.MarshalToSizedBufferVT(data); err != nil {
		return nil, err
	}
	sortMaps(data, reflect.TypeOf(m).Elem())
	return data, nil
}

// sortMaps brings the entries of maps into order, in place: they are as long as
// before. It ends at a group: those are unknown fields, which the codec writes
// last and as they came.
func sortMaps(data []byte, t reflect.Type) {
	known := schemaOf(t)
	last, start, entries := uint64(0), 0, 0 // of one map: they stand together
	pos := 0
	for pos < len(data) {
		f, rest, err := next(data[pos:])
		if err != nil || f.wireType == startGroup {
			break
		}
		if f.number != last {
			sortEntries(data[start:pos], entries)
			last, start, entries = f.number, pos, 0
		}
		switch what := known.withMaps(f.number); {
		case what == nil || f.wireType != lengthDelimited:
		case what.Kind() == reflect.Map:
			entries++
		default:
			sortMaps(f.value, what)
		}
		pos = len(data) - len(rest)
	}
	sortEntries(data[start:pos], entries)
}

// sortEntries writes n entries, which fill data, in the order of their keys.
// Keys of a map differ, so it depends on nothing else.
func sortEntries(data []byte, n int) {
	if n < 2 {
		return
	}
	entries := make([]entry, 0, 16) // on the stack where it is enough, as ordered is
	for rest := data; len(rest) > 0; {
		f, after, err := next(rest)
		if err != nil {
			return // no entry ends here, says sortMaps
		}
		entries = append(entries, entry{rest[:len(rest)-len(after)], keyOf(f.value)})
		rest = after
	}
	slices.SortFunc(entries, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
	ordered := slices.Grow(make([]byte, 0, 1024), len(data))
	for _, e := range entries {
		ordered = append(ordered, e.onWire...)
	}
	copy(data, ordered)
}

// entry is one of a map.
type entry struct{ onWire, key []byte }

// keyOf returns the key of an entry; an empty one is left out on the wire.
func keyOf(entry []byte) []byte {
	if key, _, err := next(entry); err == nil && key.number == 1 {
		return key.value
	}
	return nil
}
