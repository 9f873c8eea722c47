// Package imports holds the functions that a guest may import, the same for
// every engine: the host calls of ABI v1, the subset of WASI preview 1 and the
// refuel function of the meter. It sees guest memory only through an interface,
// and an engine only as its caller.
package imports

import (
	"context"
	"fmt"
	"slices"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Memory is a guest's linear memory.
type Memory interface {
	// Read returns the bytes from ptr on, or false unless all are inside of the memory. The
	// guest sees writes to them. They are valid until the guest runs again.
	Read(ptr, size uint32) ([]byte, bool)
}

// ValueType is the type of a parameter or a result.
type ValueType byte

// The types of imports, as encoded in the binary format of WebAssembly.
const (
	I32 ValueType = 0x7f
	I64 ValueType = 0x7e
)

// MaxParams is the largest number of parameters: WASI's path_open.
const MaxParams = 9

// Function is a function for guests to import. It is safe for concurrent use.
type Function struct {
	// Module and Name identify it in a guest's imports.
	Module, Name    string
	Params, Results []ValueType
	run             runFunc
}

// runFunc reads the parameters from the stack, an i32 in the low half of its slot, and
// leaves the result in the first slot.
type runFunc func(ctx context.Context, c *Call, memory Memory, stack []uint64) error

// Run runs the function for the guest whose op is c. The stack has room for the parameters
// and the result, and receives the result. An error, which is an *End, ends the guest; a
// panic in the host becomes one.
func (f *Function) Run(ctx context.Context, c *Call, memory Memory, stack []uint64) (err error) {
	defer func() {
		// Invariant M24 (host/SECURITY.md): a panic of a host call is an error of its op.
		if p := recover(); p != nil {
			err = hostFailed(f.Name, p)
		}
	}()
	// Invariant M1 (host/SECURITY.md): unmetered work, such as a call, checks the clock itself;
	// but a late guest may still report its end.
	if f.Name != abi.ImportRespWrite && f.Name != abi.ImportErrWrite {
		if err := checkTime(ctx); err != nil {
			return err
		}
	}
	return f.run(ctx, c, memory, stack)
}

// Functions returns every function that a guest may import, always all: grants are checked
// before the compilation, and the host decides the answers.
//
// Invariant M4 (host/SECURITY.md): guests get these from every engine, and no others.
func Functions() []Function {
	return slices.Concat(conventionFunctions(), wasiFunctions())
}

func conventionFunctions() []Function {
	three, two, one, one64 := []ValueType{I32, I32, I32}, []ValueType{I32, I32}, []ValueType{I32}, []ValueType{I64}
	functions := []Function{
		{abi.ImportModule, abi.ImportReqRead, three, one, reqRead},
		{abi.ImportModule, abi.ImportRespWrite, two, nil, respWrite},
		{abi.ImportModule, abi.ImportErrWrite, two, nil, errWrite},
		{abi.ImportModule, abi.ImportResultRead, three, one, resultRead},
		{abi.ImportModule, abi.ImportNow, nil, one64, now},
		{abi.ImportModule, abi.ImportDeadline, nil, one64, deadline},
		{abi.ImportModule, abi.ImportLog, two, one64, hostCall(abi.ImportLog)},
		{engine.RefuelModule, engine.RefuelName, one64, one64, refuel},
	}
	for _, name := range abi.Capabilities() {
		functions = append(functions, Function{abi.ImportModule, name, two, one64, hostCall(name)})
	}
	return functions
}

// hostFailed reports a panic of the host's own code. The panic's text is bounded: it may
// quote the guest's input.
func hostFailed(name string, p any) error {
	return &End{text: fmt.Sprintf("the host failed in %s, which is a mistake of the manager: %s", name, text.Quote(fmt.Sprint(p)))}
}
