package meter

import (
	"fmt"
	"strconv"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// Symbols tell which functions of a module those of its metered form are, for
// people: no engine gets a name. The zero value knows none.
type Symbols struct {
	names wasmbin.FunctionNames
	// imported and all are numbers of functions.
	imported, all uint32
}

// ReadSymbols reads those of a module that RewriteModule takes. With an error,
// which says that the names are damaged or too many, they have the numbers of
// the functions and no names.
func ReadSymbols(module *wasmbin.Module) (*Symbols, error) {
	names, err := module.FunctionNames()
	if err != nil {
		err = fmt.Errorf("meter: %w", err)
	}
	return &Symbols{names: names, imported: module.ImportedFunctions, all: uint32(len(module.Functions))}, err
}

// Name returns what function index of the metered module is called in the
// module: by its name, or "function N". It is "" for what is not the module's.
// The name is the module's text, and may be anything.
func (s *Symbols) Name(index uint32) string {
	// As moved of the rewriter: the refuel function is the last of the imports,
	// and the meter's own functions stand behind all.
	if index <= s.imported || index > s.all {
		return ""
	}
	if name := s.names.Of(index - 1); name != "" {
		return name
	}
	return "function " + strconv.FormatUint(uint64(index-1), 10)
}
