//go:build wasmtime

package differential_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/bytecodealliance/wasmtime-go/v44"

	engine "github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wasmtime"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/meter"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
)

// FuzzWasmtime compares our decoder and meter with both engines, and these with
// each other.
func FuzzWasmtime(f *testing.F) {
	addSeeds(f)
	readers := engines(f)
	f.Fuzz(func(t *testing.T, wasm, decisions []byte) { judge(t, readers, mutate(wasm, decisions)) })
}

// engines are those of this build, wazero first.
func engines(tb testing.TB) []reader { return []reader{newWazero(tb), newWasmtime()} }

// validators are what BenchmarkValidate compares with our validator.
func validators(testing.TB) []reader { return []reader{wasmtimeValidator{newWasmtime()}} }

// wasmtimeValidator does not compile.
type wasmtimeValidator struct{ *wasmtimeReader }

func (v wasmtimeValidator) accepts(wasm []byte) error {
	return wasmtime.ModuleValidate(v.metered, wasm)
}

// wasmtimeReader is wasmtime. It stops what is not metered by fuel of its own,
// which the product does not use.
type wasmtimeReader struct {
	metered, raw *wasmtime.Engine
	left         int
}

func newWasmtime() *wasmtimeReader {
	config := engine.Features()
	config.SetConsumeFuel(true)
	return &wasmtimeReader{metered: wasmtime.NewEngineWithConfig(engine.Features()), raw: wasmtime.NewEngineWithConfig(config)}
}

func (*wasmtimeReader) name() string { return "wasmtime" }

func (w *wasmtimeReader) accepts(wasm []byte) error {
	m, err := wasmtime.NewModule(w.metered, wasm)
	if err != nil {
		return err
	}
	m.Close()
	return nil
}

func (w *wasmtimeReader) run(wasm []byte, metered bool, p program) []string {
	e := w.raw
	if metered {
		e = w.metered
	}
	module, err := wasmtime.NewModule(e, wasm)
	if err != nil {
		return []string{err.Error()}
	}
	defer module.Close()
	store := wasmtime.NewStore(e)
	defer store.Close()
	tables := int64(1)
	if m, err := wasmbin.Parse(wasm); err == nil {
		tables = max(1, int64(len(m.Tables)))
	}
	store.Limiter(int64(options.MaxMemoryPages)<<16, int64(options.MaxTableElements)/tables, -1, -1, -1)
	if !metered {
		if err := store.SetFuel(refuel * tanks); err != nil {
			return []string{err.Error()}
		}
	}
	return w.runIn(store, e, module, p)
}

func (w *wasmtimeReader) runIn(store *wasmtime.Store, e *wasmtime.Engine, module *wasmtime.Module, p program) []string {
	w.left = tanks
	linker := wasmtime.NewLinker(e)
	defer linker.Close()
	i64 := []*wasmtime.ValType{wasmtime.NewValType(wasmtime.KindI64)}
	if err := linker.FuncNew(options.ImportModule, options.ImportName, wasmtime.NewFuncType(i64, i64), w.refuel); err != nil {
		return []string{err.Error()}
	}
	instance, err := linker.Instantiate(store, module)
	if err != nil {
		if outcome := wasmtimeTrap(err); ended(outcome) {
			return []string{outcome}
		}
		return []string{"not instantiated"}
	}
	outcomes := []string{"instantiated"}
	for _, name := range p.functions {
		f := instance.GetFunc(store, name)
		results, err := f.Call(store)
		outcome := wasmtimeResults(results)
		if err != nil {
			outcome = wasmtimeTrap(err)
		}
		outcomes = append(outcomes, outcome)
		if ended(outcome) {
			return outcomes
		}
	}
	if p.memory != "" {
		outcomes = append(outcomes, digest(instance.GetExport(store, p.memory).Memory().UnsafeData(store)))
	}
	return outcomes
}

func (w *wasmtimeReader) refuel(_ *wasmtime.Caller, args []wasmtime.Val) ([]wasmtime.Val, *wasmtime.Trap) {
	if args[0].I64() == meter.FuelCallDepth {
		return nil, wasmtime.NewTrap(endedDepth)
	}
	if w.left--; w.left < 0 {
		return nil, wasmtime.NewTrap(endedFuel)
	}
	return []wasmtime.Val{wasmtime.ValI64(refuel)}, nil
}

func wasmtimeResults(results any) string {
	switch v := results.(type) {
	case nil:
		return ""
	case int32:
		return result(wasmbin.I32, uint64(uint32(v)))
	case int64:
		return result(wasmbin.I64, uint64(v))
	case float32:
		return result(wasmbin.F32, uint64(math.Float32bits(v)))
	case float64:
		return result(wasmbin.F64, math.Float64bits(v))
	case []wasmtime.Val:
		var out []string
		for _, one := range v {
			out = append(out, wasmtimeResults(one.Get()))
		}
		return strings.Join(out, " ")
	}
	return "a value of an unknown type"
}

func wasmtimeTrap(err error) string {
	var trap *wasmtime.Trap
	if !errors.As(err, &trap) {
		return "trap: " + err.Error()
	}
	for _, known := range []string{endedDepth, endedFuel} {
		if strings.Contains(trap.Message(), known) {
			return known
		}
	}
	code := trap.Code()
	if code == nil {
		return "trap: " + trap.Message()
	}
	if *code == wasmtime.OutOfFuel {
		return endedFuel
	}
	kind, ok := map[wasmtime.TrapCode]string{
		wasmtime.StackOverflow: endedDepth, wasmtime.MemoryOutOfBounds: trapMemory, wasmtime.TableOutOfBounds: trapTable,
		wasmtime.IndirectCallToNull: trapTable, wasmtime.BadSignature: trapIndirect, wasmtime.IntegerOverflow: trapOverflow,
		wasmtime.IntegerDivisionByZero: trapDivide, wasmtime.BadConversionToInteger: trapConversion,
		wasmtime.UnreachableCodeReached: trapUnreachable,
	}[*code]
	if !ok {
		return "trap: " + trap.Message()
	}
	return kind
}
