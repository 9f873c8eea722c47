package meter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// planKept finds the globals of a snapshot. There are none unless the module asks for it, or
// if a global has a type that a host cannot copy.
func (m *rewriter) planKept() {
	if !m.resumes() || len(m.module.Memories) != 1 {
		return
	}
	var kept []uint32
	for i := range m.module.Globals {
		g := &m.module.Globals[i]
		if !g.Mutable {
			continue
		}
		if uint32(i) < m.module.ImportedGlobals || !isNumber(g.Type) {
			return
		}
		kept = append(kept, uint32(i))
	}
	m.kept = append(kept, m.fuel, m.fuel+1)
}

// resumes reports whether the module exports the function Options.Resume.
func (m *rewriter) resumes() bool {
	return m.options.Resume != "" && slices.ContainsFunc(m.module.Exports, func(e wasmbin.Export) bool {
		return e.Kind == wasmbin.KindFunc && string(e.Name) == m.options.Resume
	})
}

func isNumber(t wasmbin.ValueType) bool {
	return t == wasmbin.I32 || t == wasmbin.I64 || t == wasmbin.F32 || t == wasmbin.F64
}

// hides reports whether an instruction changes state outside of memory and globals: tables,
// and the existence of segments.
//
// Invariant C3 (host/SECURITY.md): a module with one of them exports no globals.
func hides(op wasmbin.Opcode) bool {
	switch op {
	case wasmbin.OpTableSet, wasmbin.OpTableGrow, wasmbin.OpTableFill, wasmbin.OpTableCopy, wasmbin.OpTableInit,
		wasmbin.OpElemDrop, wasmbin.OpDataDrop:
		return true
	}
	return false
}

// checkNames refuses exports under the names of the kept globals, even if there are none: a host
// takes any export of such a name for the meter's.
//
// Invariant M20 (host/SECURITY.md): exports of these names are the meter's.
func (m *rewriter) checkNames() error {
	for _, e := range m.module.Exports {
		if m.options.Globals != "" && strings.HasPrefix(string(e.Name), m.options.Globals) {
			return fmt.Errorf("the module exports %.80q: names that begin with %q are the host's own", e.Name, m.options.Globals)
		}
	}
	return nil
}

// exportKept exports the kept globals by their place among them.
func (m *rewriter) exportKept() {
	for n, index := range m.kept {
		m.name([]byte(m.options.Globals + strconv.Itoa(n)))
		m.bytes(byte(wasmbin.KindGlobal))
		m.u32(index)
	}
}
