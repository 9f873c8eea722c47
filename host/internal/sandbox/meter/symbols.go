package meter

import (
	"fmt"
	"strconv"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// Symbols name the functions of a metered module, for people: no engine gets a name. The
// zero value has none.
type Symbols struct {
	names wasmbin.FunctionNames
	// imported and all count functions.
	imported, all uint32
}

// ReadSymbols reads the names of a module that RewriteModule accepts. With an error, for
// damaged or too many names, they have only the numbers of the functions.
func ReadSymbols(module *wasmbin.Module) (*Symbols, error) {
	names, err := module.FunctionNames()
	if err != nil {
		err = fmt.Errorf("meter: %w", err)
	}
	return &Symbols{names: names, imported: module.ImportedFunctions, all: uint32(len(module.Functions))}, err
}

// Name returns the name of function index of the metered module, or "function N". It is ""
// for the meter's own functions. The name is the module's text, and may be anything.
func (s *Symbols) Name(index uint32) string {
	// As in moved of the rewriter: the refuel function is the last import, and the meter's own
	// functions come last.
	if index <= s.imported || index > s.all {
		return ""
	}
	if name := s.names.Of(index - 1); name != "" {
		return name
	}
	return "function " + strconv.FormatUint(uint64(index-1), 10)
}
