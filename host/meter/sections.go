package meter

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/wasm-ccm/wasm-ccm/host/internal/wasmbin"
)

// Section IDs of the WebAssembly binary format.
const (
	sectionCustom    = 0
	sectionType      = 1
	sectionImport    = 2
	sectionFunction  = 3
	sectionTable     = 4
	sectionMemory    = 5
	sectionGlobal    = 6
	sectionExport    = 7
	sectionStart     = 8
	sectionElement   = 9
	sectionCode      = 10
	sectionData      = 11
	sectionDataCount = 12
	sectionLast      = sectionDataCount
)

var header = []byte("\x00asm\x01\x00\x00\x00")

// order is the order in which sections stand in a module.
var order = [...]byte{
	sectionType, sectionImport, sectionFunction, sectionTable, sectionMemory, sectionGlobal,
	sectionExport, sectionStart, sectionElement, sectionDataCount, sectionCode, sectionData,
}

// sectionSet holds the contents of a module's sections by ID; nil is absent.
type sectionSet [sectionLast + 1][]byte

func split(wasm []byte) (*sectionSet, error) {
	if !bytes.HasPrefix(wasm, header) {
		return nil, errors.New("not a WebAssembly module of version 1")
	}
	sections := &sectionSet{}
	r := &wasmbin.Reader{Data: wasm, Pos: len(header)}
	last := -1
	for r.More() {
		id := r.Byte()
		content := r.Bytes(r.U32())
		if r.Err != nil {
			break
		}
		if id == sectionCustom {
			if name := (&wasmbin.Reader{Data: content}); !utf8.Valid(name.Name()) || name.Err != nil {
				r.Fail("custom section without a name")
			}
			continue
		}
		place := bytes.IndexByte(order[:], id)
		if place <= last {
			r.Fail("section %d is unknown, out of order or there twice", id)
			continue
		}
		last = place
		sections[id] = content
	}
	return sections, r.Done("sections")
}

func join(sections *sectionSet) []byte {
	size := len(header)
	for _, content := range sections {
		size += len(content) + 6
	}
	wasm := append(make([]byte, 0, size), header...)
	for _, id := range order {
		content := sections[id]
		if content == nil {
			continue
		}
		wasm = append(wasm, id)
		wasm = wasmbin.AppendU32(wasm, uint32(len(content)))
		wasm = append(wasm, content...)
	}
	return wasm
}

// vector is a section's content being rewritten: a count and its entries.
type vector struct {
	count   uint32
	entries []byte
}

func (v *vector) bytes() []byte {
	return append(wasmbin.AppendU32(nil, v.count), v.entries...)
}

// section returns a reader of a section and the number of its entries.
func (m *rewriter) section(id byte, what string, limit uint32) (*wasmbin.Reader, uint32) {
	r := &wasmbin.Reader{Data: m.sections[id]}
	if r.Data == nil {
		return r, 0
	}
	return r, r.Count(what, limit)
}

func sectionError(what string, index uint32, err error) error {
	return fmt.Errorf("%s %d: %w", what, index, err)
}
