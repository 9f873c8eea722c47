//go:build wasmtime

package wasmtime

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bytecodealliance/wasmtime-go/v44"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/imports"
)

// instance implements engine.Instance.
type instance struct {
	module *module
	guest  *imports.Guest
	store  *wasmtime.Store
	// exports are the runtime's instance.
	exports *wasmtime.Instance
	run     *wasmtime.Func
	memory  memory
	gate    imports.Gate
	// ctx and call are the running op's, for the host functions: the runtime passes none.
	ctx  context.Context
	call imports.Call
	// end is a host function's reason for ending the guest.
	end error
	// stack and results of a host function.
	stack   [imports.MaxParams]uint64
	results [1]wasmtime.Val
}

// instantiate makes the instance, without running its code.
func (i *instance) instantiate(ctx context.Context) error {
	i.call.Outside(i.guest)
	defer i.enter(ctx)()
	guest, err := i.guarded(func() (any, error) { return i.module.linker.Instantiate(i.store, i.module.compiled) })
	if err != nil {
		return fmt.Errorf("instantiating the module: %w", err)
	}
	i.exports = guest.(*wasmtime.Instance)
	i.run = i.exports.GetFunc(i.store, abi.ExportCall)
	memory := i.exports.GetExport(i.store, abi.ExportMemory)
	if i.run == nil || memory == nil || memory.Memory() == nil {
		return imports.ErrExports
	}
	i.memory.exported = memory.Memory()
	return nil
}

// start runs the export for initialisation.
func (i *instance) start(ctx context.Context, name string) error {
	first := i.exports.GetFunc(i.store, name)
	if first == nil {
		return imports.ErrExports
	}
	i.call.Outside(i.guest)
	defer i.enter(ctx)()
	if _, err := i.guarded(func() (any, error) { return first.Call(i.store) }); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// enter starts a call; the returned function ends it.
func (i *instance) enter(ctx context.Context) (leave func()) {
	i.ctx, i.end = ctx, nil
	return func() {
		i.ctx = nil
		i.call.End()
	}
}

func (i *instance) Call(ctx context.Context, op abi.Op, request []byte) (engine.Result, error) {
	if err := i.gate.Enter(len(request)); err != nil {
		return engine.Result{}, err
	}
	failed := true
	defer func() { i.gate.Leave(failed) }()
	i.call.Op(i.guest, request)
	defer i.enter(ctx)()
	answer, err := i.guarded(func() (any, error) { return i.run.Call(i.store, int32(op), int32(len(request))) })
	if err != nil {
		return engine.Result{}, err
	}
	code, ok := answer.(int32)
	if !ok {
		return engine.Result{}, fmt.Errorf("%s answered with %T, not with an i32", abi.ExportCall, answer)
	}
	failed = false
	return i.call.Answer(uint32(code)), nil
}

// guarded runs guest code and returns its error in the wording of all engines.
func (i *instance) guarded(run func() (any, error)) (answer any, err error) {
	defer func() {
		if p := recover(); p != nil {
			answer, err = nil, fmt.Errorf("the engine failed: %v", p)
		}
	}()
	answer, err = run()
	switch {
	case err == nil:
		return answer, nil
	case i.end != nil:
		defer closeError(err)
		return nil, i.call.Crash(i.ctx, i.end, framesOf(err))
	}
	defer closeError(err)
	return nil, i.call.Crash(i.ctx, worded(err), framesOf(err))
}

// closeError frees the runtime's part of an error, before its finalizer would.
func closeError(err error) {
	var trap *wasmtime.Trap
	var other *wasmtime.Error
	switch {
	case errors.As(err, &trap):
		trap.Close()
	case errors.As(err, &other):
		other.Close()
	}
}

// worded gives a trap the wording of WebAssembly's own tests, as in the other engine.
func worded(err error) error {
	var trap *wasmtime.Trap
	if !errors.As(err, &trap) || trap.Code() == nil {
		return errors.New(strings.Join(strings.Fields(err.Error()), " "))
	}
	word, ok := map[wasmtime.TrapCode]string{
		wasmtime.StackOverflow:          "stack overflow",
		wasmtime.MemoryOutOfBounds:      "out of bounds memory access",
		wasmtime.TableOutOfBounds:       "invalid table access",
		wasmtime.IndirectCallToNull:     "invalid table access",
		wasmtime.BadSignature:           "indirect call type mismatch",
		wasmtime.IntegerOverflow:        "integer overflow",
		wasmtime.IntegerDivisionByZero:  "integer divide by zero",
		wasmtime.BadConversionToInteger: "invalid conversion to integer",
		wasmtime.UnreachableCodeReached: "unreachable",
	}[*trap.Code()]
	if !ok {
		word = fmt.Sprintf("trap %d", *trap.Code())
	}
	return errors.New("wasm error: " + word)
}

func (i *instance) MemoryBytes() uint64 {
	if i.gate.Closed() {
		return 0
	}
	return uint64(i.memory.exported.DataSize(i.store))
}

func (i *instance) Close(context.Context) error {
	first, err := i.gate.Close()
	if first {
		i.store.Close()
	}
	return err
}
