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
	s := sorter{checker{schemas: map[reflect.Type]schema{}}}
	s.message(data, reflect.TypeOf(m).Elem())
	return data, nil
}

// sorter brings the entries of maps into order, in place: they are as long as
// before.
type sorter struct{ checker }

// message ends at a group: those are unknown fields, which the codec writes last
// and as they came.
func (s *sorter) message(data []byte, t reflect.Type) {
	known := s.schema(t)
	var run [][]byte // entries of one map, which stand together
	last, start := uint64(0), 0
	pos := 0
	for pos < len(data) {
		f, rest, err := next(data[pos:])
		if err != nil || f.wireType == startGroup {
			break
		}
		end := len(data) - len(rest)
		if f.number != last {
			sortEntries(data[start:pos], run)
			run, last, start = nil, f.number, pos
		}
		switch what := known[f.number].message; {
		case what == nil || f.wireType != lengthDelimited:
		case what.Kind() == reflect.Map:
			run = append(run, data[pos:end])
		default:
			s.message(f.value, what)
		}
		pos = end
	}
	sortEntries(data[start:pos], run)
}

// sortEntries writes the entries, which fill to, in the order of their keys.
// Keys of a map differ, so it depends on nothing else.
func sortEntries(to []byte, entries [][]byte) {
	if len(entries) < 2 || slices.IsSortedFunc(entries, compareEntries) {
		return
	}
	slices.SortFunc(entries, compareEntries)
	copy(to, slices.Concat(entries...))
}

// compareEntries compares the keys; an empty one is left out on the wire.
func compareEntries(a, b []byte) int { return bytes.Compare(keyOf(a), keyOf(b)) }

func keyOf(entry []byte) []byte {
	f, _, err := next(entry)
	if err != nil {
		return nil
	}
	if key, _, err := next(f.value); err == nil && key.number == 1 {
		return key.value
	}
	return nil
}
