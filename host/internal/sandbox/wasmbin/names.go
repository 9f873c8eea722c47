package wasmbin

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Bounds on the names of a module: beyond them the names are dropped, not the module.
const (
	// MaxNamesBytes bounds the names of all functions together. Compilers' are a tenth of the
	// code.
	MaxNamesBytes = 1 << 20
	// maxFunctionName is the length at which a function's name is cut.
	maxFunctionName = 256
)

// nameSection is the name of the custom section with names for people.
const nameSection = "name"

// The subsection of that section which has the names of functions.
const subsectionFunctions = 1

// FunctionNames are a module's names for its functions, for people looking for a mistake.
// Nothing depends on them. The zero value has none.
type FunctionNames struct {
	text string
	// indexes are ascending; ends are the ends of the names in text.
	indexes, ends []uint32
}

// Of returns the name of a function, or "". It is valid UTF-8, but otherwise arbitrary.
func (n *FunctionNames) Of(index uint32) string {
	i, found := slices.BinarySearch(n.indexes, index)
	if !found {
		return ""
	}
	start := uint32(0)
	if i > 0 {
		start = n.ends[i-1]
	}
	return n.text[start:n.ends[i]]
}

// FunctionNames reads the section of names, where there is one.
//
// Invariant M30 (host/SECURITY.md): nobody else reads it: the metered module has no custom section.
//
// The error says
// that it is damaged; then no name of it is taken. What is returned shares no
// memory with the module.
func (m *Module) FunctionNames() (FunctionNames, error) {
	switch len(m.names) {
	case 0:
		return FunctionNames{}, nil
	case 1:
	default:
		return FunctionNames{}, errors.New("the section of names stands twice")
	}
	names, err := readNames(m.names[0], uint32(len(m.Functions)))
	if err != nil {
		return FunctionNames{}, fmt.Errorf("the section of names is damaged: %w", err)
	}
	return names, nil
}

// readNames reads the subsections, each at most once, in the order of their numbers.
func readNames(content []byte, functions uint32) (names FunctionNames, err error) {
	r := &Reader{Data: content}
	for last := -1; r.More(); {
		id := int(r.Byte())
		part := r.Part(r.U32())
		switch {
		case r.Err != nil:
		case id <= last:
			r.Fail("subsection %d stands twice or out of order", id)
		case id == subsectionFunctions:
			if names, err = readFunctionNames(part, functions); err != nil {
				return FunctionNames{}, err
			}
		}
		last = id
	}
	if err := r.Done("subsections"); err != nil {
		return FunctionNames{}, err
	}
	return names, nil
}

func readFunctionNames(r *Reader, functions uint32) (FunctionNames, error) {
	if len(r.Data) > MaxNamesBytes {
		return FunctionNames{}, fmt.Errorf("%d bytes of names, at most %d are read", len(r.Data), MaxNamesBytes)
	}
	var names FunctionNames
	all, next := []byte{}, uint64(0)
	for range r.Count("names", functions) {
		index, name := r.U32(), r.text(MaxNamesBytes) // names of generic functions are long
		switch {
		case r.Err != nil:
		case index >= functions:
			r.Fail("function %d has a name and does not exist", index)
		case uint64(index) < next:
			r.Fail("function %d has two names, or out of order", index)
		}
		if r.Err != nil {
			break
		}
		next = uint64(index) + 1
		all = append(all, text.Cut(name, maxFunctionName)...)
		names.indexes, names.ends = append(names.indexes, index), append(names.ends, uint32(len(all)))
	}
	names.text = string(all)
	return names, r.Done("names of functions")
}
