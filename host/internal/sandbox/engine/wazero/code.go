package wazero

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/tetratelabs/wazero"
	"k8s.io/klog/v2"
)

// largeCode is the size from which machine code is mapped from a file, in bytes. Smaller
// code is not worth a file.
const largeCode = 4 << 20

// mapCode replaces a module's machine code by pages of a file in the directory: the kernel
// reads the pages that run, and can take them back. The code stays in the runtime's own
// memory if files cannot be run or have no room. It is called before the module runs, and
// before its compiled form is shared.
func mapCode(ctx context.Context, compiled wazero.CompiledModule, dir string) error {
	if dir == "" {
		return nil
	}
	for _, code := range machineCode(compiled) {
		if len(code) < largeCode {
			continue
		}
		if err := fromFile(ctx, code, dir); err != nil {
			return fmt.Errorf("mapping the machine code of the module: %w", err)
		}
	}
	return nil
}

func fromFile(ctx context.Context, code []byte, dir string) error {
	file, err := codeFile(code, dir)
	if err != nil {
		klog.FromContext(ctx).Info("Machine code stays in memory", "bytes", len(code), "dir", dir, "why", err)
		return nil
	}
	return errors.Join(replace(code, file), file.Close())
}

// machineCode finds the machine code of a runtime with one module, its own and that of
// imports. The runtime does not expose it, so it is read from private fields; if these
// change, none is found, and TestLargeCodeIsMapped fails.
func machineCode(compiled wazero.CompiledModule) (all [][]byte) {
	modules := follow(reflect.ValueOf(compiled), "compiledEngine", "compiledModules")
	if modules.Kind() != reflect.Map {
		return nil
	}
	for _, key := range modules.MapKeys() {
		code := follow(modules.MapIndex(key), "compiledModule", "executables", "executable")
		if code.Kind() == reflect.Slice && code.Type().Elem().Kind() == reflect.Uint8 && code.Len() > 0 {
			all = append(all, unsafe.Slice((*byte)(code.UnsafePointer()), code.Len()))
		}
	}
	return all
}

// follow walks through fields, pointers and interfaces.
func follow(v reflect.Value, fields ...string) reflect.Value {
	for _, field := range fields {
		if v = pointee(v); v.Kind() != reflect.Struct {
			return reflect.Value{}
		}
		v = v.FieldByName(field)
	}
	return v
}

func pointee(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}
