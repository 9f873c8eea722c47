package wasmbin

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Bounds on a module's declarations, so that a hostile one costs an error. Compilers stay
// far below them; larger modules take an engine seconds and hundreds of megabytes.
//
// Invariant M27 (host/SECURITY.md): these bound an engine's memory for each kind of
// declaration.
const (
	MaxTypes    = 1 << 16
	MaxImports  = 1024
	MaxExports  = 1 << 14
	MaxGlobals  = 1 << 12
	MaxTables   = 16
	MaxMemories = 1
	// MaxTypeValues bounds the parameters and results of all types together:
	// engines keep a name of each type, and make code for it.
	MaxTypeValues = 1 << 18
	// MaxFunctions bounds the functions, and MaxElements the elements of all segments together:
	// some engines keep an object for each, 40 bytes of an element in each instance, 100 of a
	// global. Stock Go has 100,000 of both for a module of some 60 MB, and no more than ten
	// globals.
	MaxFunctions    = 1 << 18
	MaxElements     = 1 << 17
	maxElemSegments = 1 << 16
	// maxDataSegments: the linker of stock Go makes up to 100,000 for a large
	// module.
	maxDataSegments = 1 << 17
	// MaxParams bounds the parameters and the results of a function.
	MaxParams = 1000
	// MaxLocals of one function, parameters included.
	MaxLocals = 4096
	// MaxBodyBytes is the size of the largest function.
	MaxBodyBytes = 4 << 20
	// MaxMemoryPages is the size of a 32 bit memory.
	MaxMemoryPages = 1 << 16
)

// Module is a decoded module, made of views of its bytes.
type Module struct {
	Types   []FuncType
	Imports []Import
	// Functions is the type index of every function; the first ImportedFunctions are imported.
	Functions         []uint32
	ImportedFunctions uint32
	// Tables and Memories have the imported ones first. Only the module's own are bounded by MaxTables and
	// MaxMemories: host/internal/sandbox/module and host/internal/sandbox/meter refuse to import any.
	Tables   []Table
	Memories []Limits
	// Globals has the first ImportedGlobals imported.
	Globals         []Global
	ImportedGlobals uint32
	Exports         []Export
	// Start is the index of the start function, or nil. Its type is not checked.
	Start    *uint32
	Elements []Element
	// DataCount is the number of data segments, declared before the code.
	DataCount *uint32
	Bodies    []Body
	Data      []Data
	// declared are the functions that instructions may refer to.
	declared map[uint32]bool
	// Size is that of the module, in bytes.
	Size int
	// names and manifests are the custom sections in use; at most two of each are kept.
	names, manifests [][]byte
}

// FuncType is the type of a function: one byte for each value.
type FuncType struct{ Params, Results string }

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

// Import is one import. Type is the index of a function's type.
type Import struct {
	Module, Name []byte
	Kind         Kind
	Type         uint32
}

// Export is one export. Index counts things of its kind.
type Export struct {
	Name  []byte
	Kind  Kind
	Index uint32
}

// Limits are a memory's, in pages, or a table's, in elements.
type Limits struct {
	Min, Max uint32
	HasMax   bool
}

// Table is a table.
type Table struct {
	Type ValueType
	Limits
}

// Global is a global. Init is nil for imported ones.
type Global struct {
	Type    ValueType
	Mutable bool
	Init    *Instruction
}

// Body is an undecoded function body, at byte Base of the module. It is decoded on demand:
// decoded, a body of locals alone is many times as large.
type Body struct {
	Data []byte
	Base int
}

// Locals are Count declared locals of one type.
type Locals struct {
	Count uint32
	Type  ValueType
}

// Type returns the type of function index, which must exist.
func (m *Module) Type(index uint32) FuncType { return m.Types[m.Functions[index]] }

// header of a core module.
var header = []byte("\x00asm\x01\x00\x00\x00")

func checkHeader(wasm []byte) error {
	switch {
	case !bytes.HasPrefix(wasm, header[:4]):
		return fmt.Errorf("not a WebAssembly module: it starts with %q instead of %q", wasm[:min(len(wasm), 4)], header[:4])
	case len(wasm) < 8:
		return errors.New("the module is damaged or truncated: it ends within its header")
	case wasm[6] == 1 && wasm[7] == 0:
		return errors.New("this is a WebAssembly component; ABI v1 needs a core module (build without the component step)")
	case !bytes.Equal(wasm[4:8], header[4:]):
		return fmt.Errorf("WebAssembly version % x is not known; version 1 is needed", wasm[4:8])
	}
	return nil
}

// Header returns the first bytes of a core module.
func Header() []byte { return bytes.Clone(header) }

// Section IDs.
const (
	sectionCustom    = 0
	SectionType      = 1
	SectionImport    = 2
	SectionFunction  = 3
	SectionTable     = 4
	SectionMemory    = 5
	SectionGlobal    = 6
	SectionExport    = 7
	SectionStart     = 8
	SectionElement   = 9
	SectionCode      = 10
	SectionData      = 11
	SectionDataCount = 12
)

// order is the required order of a module's sections.
const order = "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0c\x0a\x0b"

// Parse decodes a module and checks everything except the instructions of its functions.
// Custom sections are skipped; see Manifest and FunctionNames.
func Parse(wasm []byte) (*Module, error) {
	if err := checkHeader(wasm); err != nil {
		return nil, err
	}
	p := &parser{module: &Module{declared: map[uint32]bool{}, Size: len(wasm)}}
	if err := p.sections(wasm); err != nil {
		return nil, fmt.Errorf("the module is damaged or truncated, or not valid: %w", err)
	}
	return p.module, nil
}

type parser struct {
	module *Module
	// elements counts those of all segments.
	elements uint32
}

func (p *parser) sections(wasm []byte) error {
	r := &Reader{Data: wasm, Pos: len(header)}
	last := -1
	for r.More() {
		id := r.Byte()
		content := r.Part(r.U32())
		place := bytes.IndexByte([]byte(order), id)
		switch {
		case r.Err != nil:
		case id == sectionCustom:
			p.custom(content)
			r.Err = content.Err
		case place <= last:
			r.Fail("section %d is unknown, stands twice or out of order", id)
		default:
			last = place
			if err := p.section(id, content); err != nil {
				return err
			}
		}
	}
	if err := r.Done("sections"); err != nil {
		return err
	}
	return p.together()
}

// custom skips a custom section, and records the position of those in use.
func (p *parser) custom(content *Reader) {
	name := content.Name()
	if content.Err != nil {
		return
	}
	keep := func(all *[][]byte) {
		if len(*all) < 2 {
			*all = append(*all, content.Data[content.Pos:])
		}
	}
	switch string(name) {
	case nameSection:
		keep(&p.module.names)
	case abi.ManifestSection:
		keep(&p.module.manifests)
	}
}

// Manifest returns the section of the manifest, a view of the module, or nil.
// The error says that there are two, or that it is too large.
func (m *Module) Manifest() ([]byte, error) {
	switch {
	case len(m.manifests) == 0:
		return nil, nil
	case len(m.manifests) > 1:
		return nil, fmt.Errorf("the section %s stands twice; append the manifest once, to the finished module", abi.ManifestSection)
	case len(m.manifests[0]) > abi.MaxManifestBytes:
		return nil, fmt.Errorf("section %s has %d bytes, shorten it to at most %d", abi.ManifestSection, len(m.manifests[0]), abi.MaxManifestBytes)
	}
	return m.manifests[0], nil
}

// together checks the consistency of sections.
func (p *parser) together() error {
	m := p.module
	if functions := len(m.Functions) - int(m.ImportedFunctions); functions != len(m.Bodies) {
		return fmt.Errorf("%d functions, but %d have a body", functions, len(m.Bodies))
	}
	if m.DataCount != nil && int(*m.DataCount) != len(m.Data) {
		return fmt.Errorf("the data count section says %d segments, the data section has %d", *m.DataCount, len(m.Data))
	}
	return nil
}

func (p *parser) section(id byte, r *Reader) error {
	switch id {
	case SectionType:
		p.types(r)
		return r.Done("type section")
	case SectionImport:
		p.imports(r)
		return r.Done("import section")
	case SectionFunction:
		for range r.Count("functions", MaxFunctions) {
			p.module.Functions = append(p.module.Functions, p.typeIndex(r))
		}
		return r.Done("function section")
	case SectionTable:
		p.tables(r)
		return r.Done("table section")
	case SectionMemory:
		for range r.Count("memories", MaxMemories) {
			p.module.Memories = append(p.module.Memories, limits(r, MaxMemoryPages))
		}
		return r.Done("memory section")
	case SectionGlobal:
		p.globals(r)
		return r.Done("global section")
	case SectionExport:
		p.exports(r)
		return r.Done("export section")
	}
	return p.laterSection(id, r)
}

func (p *parser) laterSection(id byte, r *Reader) error {
	switch id {
	case SectionStart:
		index := p.functionIndex(r)
		p.module.Start = &index
		return r.Done("start section")
	case SectionElement:
		p.elementSegments(r)
		return r.Done("element section")
	case SectionDataCount:
		count := r.U32()
		p.module.DataCount = &count
		return r.Done("data count section")
	case SectionCode:
		p.bodies(r)
		return r.Done("code section")
	default:
		p.dataSegments(r)
		return r.Done("data section")
	}
}
