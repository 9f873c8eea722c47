package meter

import (
	"fmt"
	"slices"

	"github.com/wasm-ccm/wasm-ccm/host/internal/wasmbin"
)

// Types of the binary format.
const (
	typeI32  = 0x7f
	typeI64  = 0x7e
	typeFunc = 0x60
)

// rewriter holds what one step of the rewrite leaves for the next ones.
type rewriter struct {
	options  Options
	sections *sectionSet
	// signatures are the types of the module.
	signatures []signature
	// refuelType is the type of the refuel import.
	refuelType uint32
	// newTypes are types that the rewrite needs, of an index behind those.
	newTypes vector
	// importedFuncs come before the refuel import, which has this index;
	// every function after it moves up by one.
	importedFuncs uint32
	// funcTypes is the type index of each function that the module defines.
	funcTypes []uint32
	// fuel is the index of the global that holds the fuel. The one behind it
	// holds how much deeper calls may nest.
	fuel uint32
	// bulk are the functions that stand for bulk operations.
	bulk bulkFunctions
}

// signature is what the rewrite has to know of a function type.
type signature struct {
	params uint32
	// block is the type of a block with these results, and no parameters.
	block []byte
}

// functionIndex reads the index of a function and moves it.
func (m *rewriter) functionIndex(r *wasmbin.Reader) uint32 {
	index := r.U32()
	if uint64(index) >= uint64(m.importedFuncs)+uint64(len(m.funcTypes)) {
		r.Fail("function %d does not exist", index)
	}
	if index >= m.importedFuncs {
		return index + 1
	}
	return index
}

// types reads the types; appendTypes writes them.
func (m *rewriter) types() error {
	r, n := m.section(sectionType, "types", maxTypes)
	for i := range n {
		if form := r.Byte(); form != typeFunc {
			r.Fail("type form 0x%02x is not that of a function", form)
		}
		params := r.Bytes(r.Count("parameters", maxLocals))
		results := r.Bytes(r.Count("results", maxLocals))
		if r.Err != nil {
			break
		}
		m.signatures = append(m.signatures, signature{uint32(len(params)), nil})
		m.signatures[i].block = m.blockOf(n, i, params, results)
	}
	m.refuelType = m.newType(n, []byte{typeI64}, []byte{typeI64})
	return r.Done("type section")
}

// blockOf returns the type of a block with the results of type i of n.
func (m *rewriter) blockOf(n, i uint32, params, results []byte) []byte {
	switch {
	case len(results) == 0:
		return []byte{blockVoid}
	case len(results) == 1:
		return results
	case len(params) == 0:
		return appendS33(nil, i)
	}
	return appendS33(nil, m.newType(n, nil, results))
}

// newType adds a type behind the n of the module, and returns its index.
func (m *rewriter) newType(n uint32, params, results []byte) uint32 {
	e := append(m.newTypes.entries, typeFunc)
	e = append(wasmbin.AppendU32(e, uint32(len(params))), params...)
	m.newTypes.entries = append(wasmbin.AppendU32(e, uint32(len(results))), results...)
	m.newTypes.count++
	return n + m.newTypes.count - 1
}

// appendS33 appends a type's index as blocks have it: signed.
func appendS33(dst []byte, index uint32) []byte {
	for ; index >= 0x40; index >>= 7 {
		dst = append(dst, byte(index)|0x80)
	}
	return append(dst, byte(index))
}

// appendTypes puts the new types behind the module's own.
func (m *rewriter) appendTypes() error {
	r, n := m.section(sectionType, "types", maxTypes)
	v := vector{n + m.newTypes.count, slices.Concat(r.Data[r.Pos:], m.newTypes.entries)}
	m.sections[sectionType] = v.bytes()
	return nil
}

// imports keeps the imports and appends the refuel function.
func (m *rewriter) imports() error {
	r, n := m.section(sectionImport, "imports", maxFunctions)
	start := r.Pos
	for range n {
		if module := r.Name(); string(module) == m.options.ImportModule {
			r.Fail("imports from %q, which is the host's own", module)
		}
		r.Name()
		switch kind := r.Byte(); kind {
		case 0:
			m.typeIndex(r)
			m.importedFuncs++
		case 3:
			r.Bytes(2)
			m.fuel++
		default:
			r.Fail("imports of kind %d are not allowed: only functions", kind)
		}
	}
	if err := r.Done("import section"); err != nil {
		return err
	}
	v := vector{n + 1, append([]byte(nil), r.Data[start:]...)}
	for _, name := range []string{m.options.ImportModule, m.options.ImportName} {
		v.entries = append(wasmbin.AppendU32(v.entries, uint32(len(name))), name...)
	}
	v.entries = wasmbin.AppendU32(append(v.entries, 0), m.refuelType)
	m.sections[sectionImport] = v.bytes()
	return nil
}

func (m *rewriter) functions() error {
	r, n := m.section(sectionFunction, "functions", maxFunctions)
	for range n {
		m.funcTypes = append(m.funcTypes, m.typeIndex(r))
	}
	return r.Done("function section")
}

// typeIndex reads the index of a type that the module itself defines.
func (m *rewriter) typeIndex(r *wasmbin.Reader) uint32 {
	index := r.U32()
	if index >= uint32(len(m.signatures)) {
		r.Fail("type %d does not exist", index)
		return 0
	}
	return index
}

func (m *rewriter) tables() error {
	return m.clamp(sectionTable, "table", m.options.MaxTableElements, true)
}

func (m *rewriter) memories() error {
	return m.clamp(sectionMemory, "memory", m.options.MaxMemoryPages, false)
}

// clamp gives every table or memory a maximum, of at most limit together.
func (m *rewriter) clamp(id byte, what string, limit uint32, hasType bool) error {
	if m.sections[id] == nil {
		return nil
	}
	r, n := m.section(id, what, 16)
	v := vector{count: n}
	limit /= max(n, 1) // they share it
	for range n {
		if hasType {
			v.entries = append(v.entries, r.Byte())
		}
		flags := r.Byte()
		low, high := r.U32(), limit
		switch flags {
		case 0:
		case 1:
			high = r.U32()
			if high < low {
				r.Fail("%s with a maximum of %d below its minimum of %d", what, high, low)
			}
			if !hasType && high > maxMemoryPages {
				r.Fail("%s with a maximum of %d pages, above the 4 GiB of a 32 bit memory", what, high)
			}
			high = min(high, limit)
		default:
			r.Fail("%s with flags 0x%02x (shared or 64 bit) is not supported", what, flags)
		}
		if low > limit {
			r.Fail("%s of %d is above the limit of %d", what, low, limit)
		}
		v.entries = wasmbin.AppendU32(append(v.entries, 1), low)
		v.entries = wasmbin.AppendU32(v.entries, high)
	}
	if err := r.Done(what + " section"); err != nil {
		return err
	}
	m.sections[id] = v.bytes()
	return nil
}

// globals keeps the globals and appends the fuel, which starts at zero (the
// first function that runs asks the host) and the depth that is left.
func (m *rewriter) globals() error {
	r, n := m.section(sectionGlobal, "globals", maxFunctions)
	v := vector{count: n + 2}
	for range n {
		v.entries = append(v.entries, r.Bytes(2)...)
		v.entries = m.constant(r, v.entries)
	}
	if err := r.Done("global section"); err != nil {
		return err
	}
	m.fuel += n
	v.entries = append(v.entries, typeI64, 1, opI64Const, 0, opEnd, typeI32, 1)
	v.entries = append(appendI32Const(v.entries, m.options.MaxCallDepth), opEnd)
	m.sections[sectionGlobal] = v.bytes()
	return nil
}

func (m *rewriter) exports() error {
	if m.sections[sectionExport] == nil {
		return nil
	}
	r, n := m.section(sectionExport, "exports", maxFunctions)
	v := vector{count: n}
	for range n {
		name := r.Name()
		kind, index := r.Byte(), uint32(0)
		if kind == 0 {
			index = m.functionIndex(r)
		} else {
			index = r.U32()
		}
		if kind > 3 || kind == 3 && index >= m.fuel {
			r.Fail("exported global %d does not exist", index)
		}
		v.entries = append(wasmbin.AppendU32(v.entries, uint32(len(name))), name...)
		v.entries = wasmbin.AppendU32(append(v.entries, kind), index)
	}
	if err := r.Done("export section"); err != nil {
		return err
	}
	m.sections[sectionExport] = v.bytes()
	return nil
}

func (m *rewriter) start() error {
	if m.sections[sectionStart] == nil {
		return nil
	}
	r := &wasmbin.Reader{Data: m.sections[sectionStart]}
	m.sections[sectionStart] = wasmbin.AppendU32(nil, m.functionIndex(r))
	return r.Done("start section")
}

func (m *rewriter) code() error {
	r, n := m.section(sectionCode, "function bodies", maxFunctions)
	if n != uint32(len(m.funcTypes)) {
		return fmt.Errorf("%d functions but %d bodies", len(m.funcTypes), n)
	}
	if m.sections[sectionCode] == nil {
		return nil
	}
	v := vector{count: n}
	for i := range n {
		size := r.Count("bytes in a function body", maxBodyBytes)
		content := r.Bytes(size)
		if r.Err != nil {
			break
		}
		body, err := m.body(content, m.signatures[m.funcTypes[i]])
		if err != nil {
			return sectionError("function body", i, err)
		}
		v.entries = append(wasmbin.AppendU32(v.entries, uint32(len(body))), body...)
	}
	for _, body := range m.bulk.bodies {
		v.count++
		v.entries = append(wasmbin.AppendU32(v.entries, uint32(len(body))), body...)
	}
	m.sections[sectionCode] = v.bytes()
	return r.Done("code section")
}

// appendFunctions declares the functions that stand for bulk operations.
func (m *rewriter) appendFunctions() error {
	if len(m.bulk.bodies) == 0 {
		return nil
	}
	v := vector{count: uint32(len(m.funcTypes) + len(m.bulk.bodies))}
	for _, index := range m.funcTypes {
		v.entries = wasmbin.AppendU32(v.entries, index)
	}
	for range m.bulk.bodies {
		v.entries = wasmbin.AppendU32(v.entries, m.bulk.funcType)
	}
	m.sections[sectionFunction] = v.bytes()
	return nil
}
