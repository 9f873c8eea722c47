// Package module reads the imports, exports and manifest of a WebAssembly module,
// and checks them against ABI v1 and the administrator's grants. It compiles and
// runs nothing.
package module

import (
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// MaxBytes is the size of the largest module: three times that of a vendor's own provider,
// with client-go and the SDK of its cloud, by stock Go. A provider's default limit is lower
// (limits.module).
const MaxBytes = 256 << 20

// Kind is the kind of an import or export.
type Kind = wasmbin.Kind

// The kinds of WebAssembly 2.0.
const (
	KindFunc   = wasmbin.KindFunc
	KindTable  = wasmbin.KindTable
	KindMemory = wasmbin.KindMemory
	KindGlobal = wasmbin.KindGlobal
)

// The value types that the ABI uses, for a FuncType.
const (
	I32 = "\x7f"
	I64 = "\x7e"
)

// FuncType is the type of a function: one byte per value type, in its binary form.
type FuncType struct {
	Params, Results string
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

// Module is the module's declared interface.
type Module struct {
	// Binary is the decoded module, made of views of its bytes.
	Binary  *wasmbin.Module
	Imports []Import
	Exports []Export
}

// Parse reads a module. Binary shares memory with wasm, which must not change while it is
// used; the rest does not. The instructions of functions are decoded and checked by
// host/internal/sandbox/meter, which writes them anew.
func Parse(wasm []byte) (*Module, error) {
	if len(wasm) > MaxBytes {
		return nil, errorf(ReasonModuleInvalid, "the module has %d bytes, at most %d are allowed; build it without debug information", len(wasm), MaxBytes)
	}
	decoded, err := wasmbin.Parse(wasm)
	if err != nil {
		return nil, &Error{Reason: ReasonModuleInvalid, Err: err}
	}
	m := &Module{Binary: decoded}
	for _, i := range decoded.Imports {
		out := Import{Module: string(i.Module), Name: string(i.Name), Kind: i.Kind}
		if i.Kind == KindFunc {
			out.Type = FuncType(decoded.Types[i.Type])
		}
		m.Imports = append(m.Imports, out)
	}
	for _, e := range decoded.Exports {
		out := Export{Name: string(e.Name), Kind: e.Kind}
		if e.Kind == KindFunc {
			out.Type = FuncType(decoded.Type(e.Index))
		}
		m.Exports = append(m.Exports, out)
	}
	return m, nil
}
