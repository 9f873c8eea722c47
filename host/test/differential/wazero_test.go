package differential_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
)

// wazeroReader is wazero. It stops what is not metered by its own means, which
// the product does not use.
type wazeroReader struct {
	runtime wazero.Runtime
	// left is how many tanks are left to the module that runs.
	left int
}

var (
	errFuel  = errors.New("no fuel")
	errDepth = errors.New("calls too deep")
)

func newWazero(tb testing.TB) *wazeroReader {
	tb.Helper()
	ctx := context.Background()
	w := &wazeroReader{runtime: wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().
		WithCloseOnContextDone(true).WithMemoryLimitPages(options.MaxMemoryPages))}
	tb.Cleanup(func() { _ = w.runtime.Close(ctx) })
	_, err := w.runtime.NewHostModuleBuilder(options.ImportModule).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(w.refuel), []api.ValueType{api.ValueTypeI64}, []api.ValueType{api.ValueTypeI64}).Export(options.ImportName).
		Instantiate(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

func (w *wazeroReader) refuel(_ context.Context, stack []uint64) {
	if int64(stack[0]) == meter.FuelCallDepth {
		panic(errDepth)
	}
	if w.left--; w.left < 0 {
		panic(errFuel)
	}
	stack[0] = refuel
}

func (*wazeroReader) name() string { return "wazero" }

// compile compiles a module. A compiler that panics refuses it.
func (w *wazeroReader) compile(wasm []byte) (m wazero.CompiledModule, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the compiler panics: %v", p)
		}
	}()
	return w.runtime.CompileModule(context.Background(), wasm)
}

func (w *wazeroReader) accepts(wasm []byte) error {
	m, err := w.compile(wasm)
	if err != nil {
		return err
	}
	return m.Close(context.Background())
}

func (w *wazeroReader) run(wasm []byte, _ bool, p program) []string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	w.left = tanks
	compiled, err := w.compile(wasm)
	if err != nil {
		return []string{err.Error()}
	}
	defer compiled.Close(ctx)
	m, err := w.runtime.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return []string{wazeroInstantiation(err)}
	}
	defer m.Close(ctx)
	outcomes := []string{"instantiated"}
	for _, name := range p.functions {
		outcome := wazeroCall(ctx, m.ExportedFunction(name))
		outcomes = append(outcomes, outcome)
		if ended(outcome) {
			return outcomes
		}
	}
	if p.memory != "" {
		memory := m.ExportedMemory(p.memory)
		data, _ := memory.Read(0, memory.Size())
		outcomes = append(outcomes, digest(data))
	}
	return outcomes
}

// wazeroInstantiation tells start functions that reach a bound from everything
// else that may go wrong.
func wazeroInstantiation(err error) string {
	if outcome := wazeroTrap(err); ended(outcome) {
		return outcome
	}
	return "not instantiated"
}

func wazeroCall(ctx context.Context, f api.Function) string {
	results, err := f.Call(ctx)
	if err != nil {
		return wazeroTrap(err)
	}
	var out []string
	for i, kind := range f.Definition().ResultTypes() {
		out = append(out, result(kind, results[i]))
	}
	return strings.Join(out, " ")
}

func wazeroTrap(err error) string {
	var exit *sys.ExitError
	text, _, _ := strings.Cut(err.Error(), "\n")
	switch {
	case errors.Is(err, errFuel):
		return endedFuel
	case errors.As(err, &exit):
		return "ended: " + text
	case errors.Is(err, errDepth), strings.Contains(text, "stack overflow"):
		return endedDepth
	}
	for wazeros, kind := range map[string]string{
		"unreachable": trapUnreachable, "out of bounds memory access": trapMemory, "integer divide by zero": trapDivide,
		"integer overflow": trapOverflow, "invalid conversion to integer": trapConversion, "invalid table access": trapTable,
		"indirect call type mismatch": trapIndirect,
	} {
		if strings.Contains(text, wazeros) {
			return kind
		}
	}
	return "trap: " + text
}

// The traps, as far as all engines tell them apart.
const (
	trapUnreachable = "trap: unreachable"
	trapMemory      = "trap: memory"
	trapDivide      = "trap: divide by zero"
	trapOverflow    = "trap: overflow"
	trapConversion  = "trap: conversion"
	trapTable       = "trap: table"
	trapIndirect    = "trap: type of an indirect call"
)
