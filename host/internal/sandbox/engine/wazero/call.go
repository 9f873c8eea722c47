package wazero

import (
	"context"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/imports"
)

// callContext passes the instance to host functions by the context of the call.
type callContext struct {
	context.Context
	instance *instance
}

type callKey struct{}

func (c *callContext) Value(key any) any {
	if _, ok := key.(callKey); ok {
		return c.instance
	}
	return c.Context.Value(key)
}

// instantiateImports gives a runtime the modules for guests' imports.
func instantiateImports(ctx context.Context, r wazero.Runtime) error {
	builders := map[string]wazero.HostModuleBuilder{}
	for _, f := range imports.Functions() {
		builder, ok := builders[f.Module]
		if !ok {
			builder = r.NewHostModuleBuilder(f.Module)
			builders[f.Module] = builder
		}
		builder.NewFunctionBuilder().
			WithGoModuleFunction(run(f), valueTypes(f.Params), valueTypes(f.Results)).
			Export(f.Name)
	}
	for _, builder := range builders {
		if _, err := builder.Instantiate(ctx); err != nil {
			return err
		}
	}
	return nil
}

// run ends the guest by a panic, which the runtime turns into the error of the call.
func run(f imports.Function) api.GoModuleFunc {
	return func(ctx context.Context, guest api.Module, stack []uint64) {
		i := ctx.Value(callKey{}).(*instance)
		memory := i.memory
		if memory == nil { // a start function, before the instantiation ends
			memory = guest.Memory()
		}
		if err := f.Run(ctx, &i.call, memory, stack); err != nil {
			panic(err)
		}
	}
}

func valueTypes(types []imports.ValueType) []api.ValueType {
	converted := make([]api.ValueType, len(types))
	for i, t := range types {
		converted[i] = api.ValueType(t)
	}
	return converted
}
