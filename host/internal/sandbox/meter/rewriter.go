package meter

import (
	"fmt"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// rewriter writes the metered module, section by section. Its additions follow the module's
// own entries of each kind, out of the module's reach, except for the refuel function: as
// the last import it shifts every function of the module up by one.
type rewriter struct {
	options   Options
	module    *wasmbin.Module
	validator *wasmbin.Validator
	out       []byte
	// most bounds out, in bytes.
	most int
	// newTypes are the rewrite's own; refuelType and bulkType are the indexes of two of them.
	newTypes             []wasmbin.FuncType
	refuelType, bulkType uint32
	// blocks has, for each function type, the type of a block with its results.
	blocks []wasmbin.BlockType
	// fuel is the index of the global with the fuel. The next global holds the remaining stack.
	fuel uint32
	// copies and fills are the functions that replace bulk operations, if there is a memory.
	copies, fills uint32
	// kept are the globals exported for snapshots. hidden: the code changes state outside of
	// globals and memory.
	kept   []uint32
	hidden bool
	// body is the builder for function bodies.
	body body
}

func newRewriter(module *wasmbin.Module, options Options) *rewriter {
	m := &rewriter{
		options: options, module: module, validator: wasmbin.NewValidator(module),
		fuel: uint32(len(module.Globals)),
	}
	code := 0
	for i := range module.Bodies {
		code += len(module.Bodies[i].Data)
	}
	m.out = append(make([]byte, 0, module.Size+code/2+1<<12), wasmbin.Header()...)
	m.most = module.Size + code/2 + functionBytes*len(module.Bodies) + freeBytes
	m.copies = uint32(len(module.Functions)) + 1
	m.fills = m.copies + 1
	m.body.m = m
	m.planTypes()
	m.planKept()
	return m
}

// planTypes finds the types that the module lacks.
func (m *rewriter) planTypes() {
	i32, i64 := string(rune(wasmbin.I32)), string(rune(wasmbin.I64))
	m.refuelType = m.newType(wasmbin.FuncType{Params: i64, Results: i64})
	m.bulkType = m.newType(wasmbin.FuncType{Params: i32 + i32 + i32})
	for i, t := range m.module.Types {
		m.blocks = append(m.blocks, m.blockOf(uint32(i), t))
	}
}

// blockOf returns the type of a block with the results of type i.
func (m *rewriter) blockOf(i uint32, t wasmbin.FuncType) wasmbin.BlockType {
	switch {
	case len(t.Results) == 0:
		return wasmbin.BlockType{Value: wasmbin.Void}
	case len(t.Results) == 1:
		return wasmbin.BlockType{Value: t.Results[0]}
	case len(t.Params) == 0:
		return wasmbin.BlockType{Index: i}
	}
	return wasmbin.BlockType{Index: m.newType(wasmbin.FuncType{Results: t.Results})}
}

func (m *rewriter) newType(t wasmbin.FuncType) uint32 {
	m.newTypes = append(m.newTypes, t)
	return uint32(len(m.module.Types) + len(m.newTypes) - 1)
}

// section writes a section after its size, which is known only afterwards.
func (m *rewriter) section(id byte, content func() error) error {
	m.out = append(m.out, id)
	const room = 5
	start := len(m.out)
	m.out = append(m.out, make([]byte, room)...)
	if err := content(); err != nil {
		return err
	}
	if err := m.fits(0); err != nil {
		return err
	}
	size := wasmbin.AppendU32(m.out[start:start], uint32(len(m.out)-start-room))
	m.out = append(m.out[:start+len(size)], m.out[start+room:]...)
	return nil
}

// Invariant M28 (host/SECURITY.md): the size of the output is bounded by that of the input.
//
// freeBytes and, for each function, functionBytes is what a module may grow by, beside half
// of its code. Compilers' code grows by a fifth; code of nothing but loops, by eight times
// its size.
const (
	freeBytes     = 1 << 20
	functionBytes = 64
)

// fits checks that there is room for n more bytes.
func (m *rewriter) fits(n int) error {
	if len(m.out)+n > m.most {
		return fmt.Errorf("the metered module would exceed %d bytes: it has unusually many loops, calls and bulk operations", m.most)
	}
	return nil
}

// write is section for contents that cannot fail.
func (m *rewriter) write(id byte, n int, entries func()) error {
	return m.section(id, func() error {
		m.u32(uint32(n))
		entries()
		return nil
	})
}

func (m *rewriter) u32(v uint32) { m.out = wasmbin.AppendU32(m.out, v) }

func (m *rewriter) bytes(b ...byte) { m.out = append(m.out, b...) }

func (m *rewriter) name(name []byte) {
	m.u32(uint32(len(name)))
	m.bytes(name...)
}

// moved is the index of a function in the metered module.
func (m *rewriter) moved(index uint32) uint32 {
	if index >= m.module.ImportedFunctions {
		return index + 1
	}
	return index
}

func (m *rewriter) types() error {
	return m.write(wasmbin.SectionType, len(m.module.Types)+len(m.newTypes), func() {
		for _, types := range [][]wasmbin.FuncType{m.module.Types, m.newTypes} {
			for _, t := range types {
				m.bytes(typeFunc)
				m.name([]byte(t.Params))
				m.name([]byte(t.Results))
			}
		}
	})
}

// imports keeps the imported functions and globals, and appends the refuel function.
func (m *rewriter) imports() error {
	for _, i := range m.module.Imports {
		// Invariant M20 (host/SECURITY.md): a module cannot import the meter's functions.
		if string(i.Module) == m.options.ImportModule {
			return fmt.Errorf("the module imports from %q, which is the host's own", i.Module)
		}
		if i.Kind != wasmbin.KindFunc && i.Kind != wasmbin.KindGlobal {
			return fmt.Errorf("import %.80q.%.80q is a %s: only functions are allowed", i.Module, i.Name, i.Kind)
		}
	}
	return m.write(wasmbin.SectionImport, len(m.module.Imports)+1, func() {
		global := 0
		for _, i := range m.module.Imports {
			m.name(i.Module)
			m.name(i.Name)
			m.bytes(byte(i.Kind))
			if i.Kind == wasmbin.KindFunc {
				m.u32(i.Type)
				continue
			}
			m.globalType(&m.module.Globals[global])
			global++
		}
		m.name([]byte(m.options.ImportModule))
		m.name([]byte(m.options.ImportName))
		m.bytes(byte(wasmbin.KindFunc))
		m.u32(m.refuelType)
	})
}

func (m *rewriter) globalType(g *wasmbin.Global) {
	mutable := byte(0)
	if g.Mutable {
		mutable = 1
	}
	m.bytes(g.Type, mutable)
}

// hasBulk reports whether the functions for bulk operations exist.
func (m *rewriter) hasBulk() bool { return len(m.module.Memories) > 0 }

func (m *rewriter) functions() error {
	defined := m.module.Functions[m.module.ImportedFunctions:]
	n := len(defined)
	if m.hasBulk() {
		n += 2
	}
	return m.write(wasmbin.SectionFunction, n, func() {
		for _, t := range defined {
			m.u32(t)
		}
		for range n - len(defined) {
			m.u32(m.bulkType)
		}
	})
}

// limits writes a memory's or a table's, with a maximum of at most limit.
func (m *rewriter) limits(what string, l wasmbin.Limits, limit uint32) error {
	if l.Min > limit {
		return fmt.Errorf("%s of %d is above the limit of %d", what, l.Min, limit)
	}
	if !l.HasMax {
		l.Max = limit
	}
	// Invariant M3 (host/SECURITY.md): every memory and table has a maximum, of the limit at most.
	m.bytes(1)
	m.u32(l.Min)
	m.u32(min(l.Max, limit))
	return nil
}

func (m *rewriter) tables() error {
	n := uint32(len(m.module.Tables))
	if n == 0 {
		return nil
	}
	return m.section(wasmbin.SectionTable, func() error {
		m.u32(n)
		for _, t := range m.module.Tables {
			m.bytes(t.Type)
			if err := m.limits("table", t.Limits, m.options.MaxTableElements/n); err != nil { // they share it
				return err
			}
		}
		return nil
	})
}

func (m *rewriter) memories() error {
	if len(m.module.Memories) == 0 {
		return nil
	}
	return m.section(wasmbin.SectionMemory, func() error {
		m.u32(1)
		return m.limits("memory", m.module.Memories[0], m.options.MaxMemoryPages)
	})
}

// globals keeps the globals and appends the fuel, which starts at zero (the first function
// asks the host) and the remaining stack.
func (m *rewriter) globals() error {
	defined := m.module.Globals[m.module.ImportedGlobals:]
	return m.write(wasmbin.SectionGlobal, len(defined)+2, func() {
		for i := range defined {
			m.globalType(&defined[i])
			m.constant(defined[i].Init)
		}
		m.bytes(wasmbin.I64, 1, opI64Const, 0, opEnd, wasmbin.I32, 1)
		m.out = append(appendI32Const(m.out, m.options.MaxStackBytes), opEnd)
	})
}

// constant writes a constant expression.
func (m *rewriter) constant(in *wasmbin.Instruction) {
	moved := *in
	if in.Op == wasmbin.OpRefFunc {
		moved.X = m.moved(in.X)
	}
	m.out = append(moved.Append(m.out), opEnd)
}
