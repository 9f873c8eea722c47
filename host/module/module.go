// Package module reads what a WebAssembly module says of itself, its imports,
// exports and manifest, and checks it against ABI v1 and what the
// administrator grants. Nothing is compiled or run for that.
//
// It imports abi and internal/wasmbin only.
package module

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/wasmbin"
)

// Bounds on what a module may declare.
const (
	maxTypes     = 1 << 16
	maxImports   = 1024
	maxExports   = 1 << 14
	maxFunctions = 1 << 18
	maxParams    = 1024
	maxTables    = 16
	maxMemories  = 1
	maxGlobals   = 1 << 16
	maxElements  = 1 << 16
)

// MaxBytes is the size of the largest module: more than ten times that of a
// provider by stock Go.
const MaxBytes = 64 << 20

// Kind is the kind of an import or export.
type Kind byte

// The kinds of WebAssembly 2.0.
const (
	KindFunc   Kind = 0
	KindTable  Kind = 1
	KindMemory Kind = 2
	KindGlobal Kind = 3
)

func (k Kind) String() string {
	if k > KindGlobal {
		return fmt.Sprintf("kind %d", byte(k))
	}
	return [...]string{"function", "table", "memory", "global"}[k]
}

// ValueType is a WebAssembly value type in its binary form.
type ValueType byte

// The value types that the ABI uses.
const (
	I32 ValueType = 0x7f
	I64 ValueType = 0x7e
)

// FuncType is the type of a function.
type FuncType struct {
	Params, Results []ValueType
}

// Import is one import of a module. Type is set for functions.
type Import struct {
	Module, Name string
	Kind         Kind
	Type         FuncType
}

// Export is one export of a module. Type is set for functions.
type Export struct {
	Name string
	Kind Kind
	Type FuncType
}

// Module is what a module says of itself.
type Module struct {
	Imports  []Import
	Exports  []Export
	HasStart bool
	// Manifest is the content of the custom section ccm.manifest, or nil.
	Manifest []byte
}

var (
	magic   = []byte("\x00asm")
	version = []byte("\x01\x00\x00\x00")
)

// Parse reads a module. The result shares no memory with wasm. Of function
// bodies only the sizes and the locals are looked at.
func Parse(wasm []byte) (*Module, error) {
	if len(wasm) > MaxBytes {
		return nil, errorf(ReasonModuleInvalid, "the module has %d bytes, at most %d are allowed; build it without debug information", len(wasm), MaxBytes)
	}
	if err := checkHeader(wasm); err != nil {
		return nil, &Error{Reason: ReasonModuleInvalid, Err: err}
	}
	p := &parser{}
	if err := p.sections(wasm); err != nil {
		return nil, &Error{Reason: ReasonModuleInvalid, Err: fmt.Errorf("the module is damaged or truncated: %w", err)}
	}
	section, found, err := manifest.Section(wasm)
	if err != nil {
		return nil, &Error{Reason: ReasonManifestInvalid, Err: err}
	}
	if found {
		p.module.Manifest = bytes.Clone(section)
	}
	return &p.module, nil
}

func checkHeader(wasm []byte) error {
	switch {
	case !bytes.HasPrefix(wasm, magic):
		return fmt.Errorf("not a WebAssembly module: it starts with %q instead of %q", wasm[:min(len(wasm), 4)], magic)
	case len(wasm) < 8:
		return errors.New("the module is damaged or truncated: it ends within its header")
	case wasm[6] == 1 && wasm[7] == 0:
		return errors.New("this is a WebAssembly component; ABI v1 needs a core module (build without the component step)")
	case !bytes.Equal(wasm[4:8], version):
		return fmt.Errorf("WebAssembly version % x is not known; version 1 is needed", wasm[4:8])
	}
	return nil
}

// parser holds what one section leaves for the next ones.
type parser struct {
	module    Module
	types     []FuncType
	functions []uint32 // type index of each function, imported ones first
	defined   uint32   // functions that are not imported
	bodies    uint32   // of functions
	last      int      // order of the section before
}

// order is where sections stand in a module: tags (13) between memories and
// globals, the data count (12) before the code.
func order(id byte) int {
	const sections = "\x01\x02\x03\x04\x05\x0d\x06\x07\x08\x09\x0c\x0a\x0b"
	return 1 + bytes.IndexByte([]byte(sections), id)
}

// inOrder refuses a section that is unknown, stands twice, or stands behind
// one that it has to stand before: what is read here must be what the engine
// reads.
func (p *parser) inOrder(id byte) error {
	if id == 0 { // custom sections stand anywhere
		return nil
	}
	at := order(id)
	if at <= p.last {
		return fmt.Errorf("section %d is unknown, stands twice or out of order", id)
	}
	p.last = at
	return nil
}

func (p *parser) sections(wasm []byte) error {
	r := &wasmbin.Reader{Data: wasm, Pos: 8}
	for r.More() {
		id := r.Byte()
		content := &wasmbin.Reader{Data: r.Bytes(r.U32())}
		if r.Err != nil {
			break
		}
		if err := p.inOrder(id); err != nil {
			return err
		}
		if err := p.section(id, content); err != nil {
			return err
		}
	}
	if r.Err == nil && p.defined != p.bodies {
		r.Fail("%d functions, but %d have a body", p.defined, p.bodies)
	}
	return r.Done("sections")
}

func (p *parser) section(id byte, r *wasmbin.Reader) error {
	switch id {
	case 1:
		p.typeSection(r)
		return r.Done("type section")
	case 2:
		p.importSection(r)
		return r.Done("import section")
	case 3:
		p.defined = r.Count("functions", maxFunctions)
		for range p.defined {
			p.functions = append(p.functions, r.U32())
		}
		return r.Done("function section")
	case 7:
		p.exportSection(r)
		return r.Done("export section")
	case 4, 5, 6, 9:
		what := map[byte]string{4: "tables", 5: "memories", 6: "globals", 9: "element segments"}[id]
		r.Count(what, map[byte]uint32{4: maxTables, 5: maxMemories, 6: maxGlobals, 9: maxElements}[id])
		return r.Err
	case 8:
		p.module.HasStart = true
	case 10:
		p.codeSection(r)
		return r.Done("code section")
	case 11:
		dataSection(r)
		return r.Done("data section")
	}
	return nil
}

func (p *parser) typeSection(r *wasmbin.Reader) {
	for range r.Count("types", maxTypes) {
		if form := r.Byte(); form != 0x60 {
			r.Fail("type form 0x%02x is not that of a function", form)
		}
		if r.Err != nil {
			return
		}
		p.types = append(p.types, FuncType{Params: valueTypes(r), Results: valueTypes(r)})
	}
}

func valueTypes(r *wasmbin.Reader) []ValueType {
	var types []ValueType
	for _, b := range r.Bytes(r.Count("parameters or results", maxParams)) {
		types = append(types, ValueType(b))
	}
	return types
}

func (p *parser) importSection(r *wasmbin.Reader) {
	for range r.Count("imports", maxImports) {
		i := Import{Module: string(r.Name()), Name: string(r.Name()), Kind: Kind(r.Byte())}
		switch i.Kind {
		case KindFunc:
			index := r.U32()
			i.Type = p.funcType(r, index)
			p.functions = append(p.functions, index)
		case KindTable:
			r.Byte()
			limits(r)
		case KindMemory:
			limits(r)
		case KindGlobal:
			r.Bytes(2)
		default:
			r.Fail("import %s.%s is of an unknown kind", printable(i.Module), printable(i.Name))
		}
		if r.Err != nil {
			return
		}
		p.module.Imports = append(p.module.Imports, i)
	}
}

func limits(r *wasmbin.Reader) {
	flags := r.Byte()
	r.U32()
	if flags&1 != 0 {
		r.U32()
	}
}

func (p *parser) exportSection(r *wasmbin.Reader) {
	for range r.Count("exports", maxExports) {
		e := Export{Name: string(r.Name()), Kind: Kind(r.Byte())}
		index := r.U32()
		if e.Kind == KindFunc {
			if index >= uint32(len(p.functions)) {
				r.Fail("export %s is function %d, which does not exist", printable(e.Name), index)
				return
			}
			e.Type = p.funcType(r, p.functions[index])
		}
		if r.Err != nil {
			return
		}
		p.module.Exports = append(p.module.Exports, e)
	}
}

func (p *parser) funcType(r *wasmbin.Reader, index uint32) FuncType {
	if index >= uint32(len(p.types)) {
		r.Fail("type %d does not exist", index)
		return FuncType{}
	}
	return p.types[index]
}
